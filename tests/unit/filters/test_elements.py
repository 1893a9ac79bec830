from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import FilterError
from loops.filters.elements import elements_of
from tests.unit.filters.events import event, one

CHAIN = (
    'span.label:text="Say \\"hi\\"; now"nth-child="1"nth-of-type="1"'
    ';a.btn.md:flex:attr__href="/buy?a=1:b"href="/buy?a=1:b"attr_id="go"attr__data-attr="buy"text="Buy"nth-child="2"'
    ";div.box"
    ';body:nth-child="1"'
)
LIST: Any = [
    {"tag_name": "span", "$el_text": 'Say "hi"; now', "attr__class": "label", "nth_child": 1, "nth_of_type": 1},
    {
        "tag_name": "a",
        "$el_text": "Buy",
        "attr__class": ["btn", "md:flex"],
        "attr__href": "/buy?a=1:b",
        "attr__id": "go",
        "attr__data-attr": "buy",
        "nth_child": 2,
    },
    {"tag_name": "div", "attr__class": "box"},
    {"tag_name": "body", "nth_child": 1},
]
CLICKS = [pytest.param({"$elements_chain": CHAIN}, id="chain"), pytest.param({"$elements": LIST}, id="list")]


def asks(key: str, operator: str, value: Any, properties: Any) -> bool:
    return one(key, operator, value, type="element").matches(event(properties, source="posthog"))


@pytest.mark.parametrize("click", CLICKS)
@pytest.mark.parametrize(
    ("key", "operator", "value", "expected"),
    [
        ("text", "exact", 'Say "hi"; now', True),
        ("text", "exact", ["no", "Buy"], True),
        ("text", "icontains", "buy", True),
        ("text", "is_not", "Sell", True),
        ("text", "is_not", "Buy", False),
        ("text", "not_regex", "^B", False),
        ("text", "is_set", None, True),
        ("href", "regex", r"^/buy\?", True),
        ("href", "exact", "/sell", False),
        ("href", "not_icontains", "sell", True),
        ("tag_name", "exact", "div", True),
        ("tag_name", "is_not", ["form", "a"], False),
        ("tag_name", "is_not", "form", True),
    ],
)
def test_a_filter_on_elements_holds_for_one_of_them_and_a_negative_one_for_all(
    click: Any, key: str, operator: str, value: Any, expected: bool
) -> None:
    assert asks(key, operator, value, click) is expected


@pytest.mark.parametrize("click", CLICKS)
@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("a", True),
        ("*", True),
        ("form", False),
        (".btn", True),
        ("a.btn.other", False),
        ("#go", True),
        ("a#go", True),
        ("span#go", False),
        ('[data-attr="buy"]', True),
        ("[data-attr='sell']", False),
        ("[href]", True),
        ('a[href="/buy?a=1:b"]', True),
        ("a:nth-child(2)", True),
        ("a:nth-child(1)", False),
        ("span:nth-of-type(1)", True),
        ("div a", True),
        ("body span", True),
        ("div.box > a > span", True),
        ("div>a", True),
        ("body > a", False),
        ("body a > span", True),
        ("body > span", False),
        ("span a", False),
    ],
)
def test_a_selector_finds_any_of_the_elements_inside_those_around_it(click: Any, selector: str, found: bool) -> None:
    assert asks("selector", "exact", selector, click) is found
    assert asks("selector", "is_not", selector, click) is not found
    assert asks("selector", "exact", ["form", selector], click) is found


@pytest.mark.parametrize("key", ["text", "href", "tag_name", "selector"])
def test_without_elements_only_the_negative_operators_hold_d4(key: str) -> None:
    for properties in ({}, {"$elements_chain": ""}, {"$elements_chain": 5}, {"$elements": "a"}, {"$elements": [5]}):
        assert not asks(key, "exact", "a", properties)
        assert asks(key, "is_not", "a", properties)


@pytest.mark.parametrize(
    "selector", ["", ">", "a >", "> a", "a > > b", "a + b", "a, b", "a:hover", "[", "a[x='", "a$b", ".a.", "a" * 1001]
)
def test_a_selector_that_is_not_understood_is_refused(selector: str) -> None:
    with pytest.raises(FilterError) as caught:
        one("selector", "exact", selector, type="element")
    assert caught.value.path == "filters.properties[0].value"
    assert "selector" in caught.value.message


def test_what_was_compared_is_told_of_elements() -> None:
    click = event({"$elements_chain": CHAIN})
    (compared,) = one("href", "exact", "/sell", type="element").explain(click)
    assert compared.words() == 'element.href is ["/buy?a=1:b"], wanted exactly "/sell"'
    (compared,) = one("selector", "exact", "form", type="element").explain(click)
    assert compared.words() == 'element.selector is ["span", "a", "div", "body"], wanted exactly "form"'
    (compared,) = one("text", "exact", "x", type="element").explain(event())
    assert compared.words() == 'element.text is not set, wanted exactly "x"'


def test_both_forms_are_read_as_the_same_elements() -> None:
    chain, listed = (elements_of(event(click)) for click in ({"$elements_chain": CHAIN}, {"$elements": LIST}))
    assert [(one.tag, one.classes) for one in chain] == [(one.tag, one.classes) for one in listed]
    for name in ("text", "href", "attr_id", "nth-child"):
        assert [one.attributes.get(name) for one in chain] == [one.attributes.get(name) for one in listed]


@given(chain=st.text('a.:;="\\ x', max_size=40))
def test_no_chain_is_too_odd_to_be_read(chain: str) -> None:
    assert isinstance(elements_of(event({"$elements_chain": chain})), tuple)


def test_a_long_chain_is_read_in_one_go() -> None:
    assert len(elements_of(event({"$elements_chain": '"\\"' * 300_000}))) == 1
    assert len(elements_of(event({"$elements_chain": "a;" * 100_000}))) == 100_000
