"""Nothing that a Hog template holds may hang or exhaust the service, neither when saved nor when rendered."""

import pytest

from loops.errors import TemplateError
from loops.event import JsonValue
from loops.expressions import compile_expression, compile_template

BIG = {"v": {"long": "a" * 1_000_000, "list": list(range(100_000)), "map": {str(i): i for i in range(100_000)}}}


@pytest.mark.parametrize(
    "source",
    [
        "{" + "[" * 2000 + "]" * 2000 + "}",
        "{" + "(" * 2000 + "1" + ")" * 2000 + "}",
        "{ " + "{'a': " * 2000 + "1" + "}" * 2000 + "}",
        "{" + "lower(" * 2000 + "a" + ")" * 2000 + "}",
        "{" + "f'{" * 2000 + "a" + "}'" * 2000 + "}",
        "{" + "[" * 100_000,
        "{" + "not " * 20_000 + "1}",
        "{" + "- " * 20_000 + "a}",
        "{" + "a ? b : " * 2000 + "c}",
        "{" + "a[" * 2000 + "1" + "]" * 2000 + "}",
    ],
)
def test_deep_nesting_is_refused(source):
    with pytest.raises(TemplateError, match="nested more than 64 deep"):
        compile_template(source)


def test_a_value_of_nested_lists_is_refused_too():
    value: JsonValue = ["x"]
    for _ in range(500):
        value = [value]
    with pytest.raises(TemplateError, match="nested more than 64 deep"):
        compile_template(value)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{" + "1 + " * 5000 + "1}", 5001),
        ("{" + "a ?? " * 5000 + "'end'}", "end"),
        ("{" + "true and " * 5000 + "true}", True),
        ("{" + "'x' || " * 1000 + "''}", "x" * 1000),
        ("{a" + ".b" * 20_000 + "}", None),
        ("{a" + "[a]" * 5000 + "}", None),
        ("{[a]" + "[1]" * 5000 + "}", None),
        ("{" + "- -" * 20_000 + "1}", 1),
    ],
)
def test_a_long_chain_nests_nothing(source, expected):
    assert compile_template(source).render({"a": None}) == expected


@pytest.mark.parametrize("source", ["\\" * 199_999, "'" * 199_999, "}" * 199_999, ("\\\\}" * 66_000), " " * 199_999])
def test_long_plain_text_compiles_at_once(source):
    compile_template(source)


def test_a_source_over_the_limit_is_refused():
    with pytest.raises(TemplateError, match="200,001 characters, over the limit of 200,000"):
        compile_template("x" * 200_001)
    with pytest.raises(TemplateError, match="over the limit"):
        compile_expression("a" * 200_001)


@pytest.mark.parametrize(
    "source",
    [
        "{replaceAll(v.long, 'a', v.long)}",
        "{replaceAll(v.long, '', 'xx')}",
        "{concat(v.long, 'b')}",
        "{v.long || 'b'}",
        "{v.long}{v.long}",
        "x{v.list}{v.list}{v.list}",
        "{jsonStringify(v.map)}",
        "{toString(v.map)}",
        "{v.map like 'a'}",
        "{f'{v.long}{v.long}'}",
    ],
)
def test_a_text_over_a_million_characters_is_refused(source):
    with pytest.raises(TemplateError, match="a text of more than 1,000,000 characters"):
        compile_template(source).render(BIG)


@pytest.mark.parametrize(
    "source",
    [
        "{concat(" + "lower(v.long), " * 12 + "'')}",
        "{" + "length(v.long) + " * 50 + "1}",
        "{" + "v.long = v.long and " * 50 + "true}",
        "{" + "'x' in v.list or " * 200 + "false}",
        "{" + "v.long like '%b%c_d' or " * 50 + "false}",
        "{position(v.long, 'b')}" * 50,
        "{has(v.list, 1.5)}" * 200,
    ],
)
def test_work_is_bounded_however_small_the_result(source):
    with pytest.raises(TemplateError, match=r"too much work|more than 1,000,000"):
        compile_template(source).render(BIG)


def test_a_pattern_that_compares_too_much_is_refused():
    with pytest.raises(TemplateError, match="too much to compare"):
        compile_template("{v.long like '" + "_" * 100 + "'}").render(BIG)


def test_numbers_do_not_grow_without_bound():
    source = "{" + " * ".join(["9" * 300] * 600) + "}"
    assert compile_template(source).render({}) is None
    assert compile_template(f"x{source}").render({}) == "xInfinity"


def test_work_is_counted_anew_for_each_render():
    template = compile_template("{length(concat(v.long, ''))}" * 2)
    for _ in range(20):
        assert template.render(BIG) == "10000001000000"


ITEMS = [{"a": 1, f"k{i}": f"some text {i}"} for i in range(1_200)]
EVENT = {"event": {"l": ITEMS, "m": [dict(item) for item in ITEMS]}}


@pytest.mark.parametrize(
    "source",
    [
        "{" + "position('a', event.l) + " * 400 + "1}",
        "{" + "position('a', [event.l]) + " * 400 + "1}",
        "{" + "trim('a', event.l) = '' and " * 400 + "true}",
        "{" + "replaceAll('a', event.l, 'b') = 'c' or " * 400 + "false}",
        "{" + "replaceAll('a', 'b', event.l) = 'c' or " * 400 + "false}",
        "{" + "event.l like 'zqzq' or " * 400 + "false}",
        "{" + "event.l not ilike '%' or " * 400 + "false}",
        "{" + "'zqzq' like event.l or " * 400 + "false}",
        "{" + "event.l in 'zqzq' or " * 400 + "false}",
        "{" + "event.l not in 'zqzq' and " * 400 + "true}",
        "{" + "length(event.l || '') + " * 400 + "1}",
        "{" + "length(toString(event.l)) + " * 400 + "1}",
        "{" + "length(jsonStringify(event.l)) + " * 400 + "1}",
        "{" + "length(jsonStringify([event.l])) + " * 400 + "1}",
    ],
)
@pytest.mark.usefixtures("tenth_of_the_work")
def test_writing_lists_and_maps_as_text_is_work(source):
    with pytest.raises(TemplateError, match="too much work"):
        compile_template(source).render(EVENT)


@pytest.mark.usefixtures("tenth_of_the_work")
def test_a_list_that_is_only_looked_at_costs_nothing_for_its_text():
    source = "{" + "isNotNull(event.l[2]) and length(event.l[1]) = 2 and " * 400 + "true}"
    assert compile_template(source).render(EVENT) is True


def test_json_that_indents_to_a_vast_text_is_refused():
    value: JsonValue = list(range(200_000))
    for _ in range(200):
        value = [value]
    with pytest.raises(TemplateError, match="a text of more than 1,000,000 characters"):
        compile_template("{length(jsonStringify(v, 10))}").render({"v": value})


@pytest.mark.parametrize(
    "turn",
    [
        '{% if event.l contains "zz" %}{% endif %}',
        "{% if event.l contains event.m[1199] %}{% endif %}",
        "{% if event.l == event.m %}{% endif %}",
        "{% if event.l != event.m %}{% endif %}",
        "{% case event.l %}{% when event.m %}{% endcase %}",
        '{% if text contains "aaab" %}{% endif %}',
        "{% if text == text %}{% endif %}",
        '{% assign x = event.l | where: "a", 1 %}',
        '{% assign x = event.l | reject: "a", 1 %}',
        '{% assign x = event.l | find: "a", 2 %}',
        '{% assign x = event.l | map: "a" %}',
        '{% assign x = event.l | sort: "a" %}',
        '{% assign x = event.l | sort_natural: "a" %}',
        "{% assign x = event.l | json %}",
        "{% assign x = event.l[0] %}" * 60,
    ],
)
@pytest.mark.usefixtures("tenth_of_the_work")
def test_what_a_loop_reads_of_lists_and_texts_is_work(turn):
    source = "{% for n in (1..2000) %}" + turn + "{% endfor %}"
    with pytest.raises(TemplateError, match="too much work"):
        compile_template(source, engine="liquid").render({**EVENT, "text": "a" * 40_000})


@pytest.mark.parametrize(
    "source",
    [
        '{% assign r = (1..9000000) %}{% if r contains "a" %}{% endif %}',
        '{% if 1 == 2 or (1..99999999) contains "a" %}{% endif %}',
        '{% for n in (1..2) %}{% unless (1..9000000) contains "a" %}{% endunless %}{% endfor %}',
    ],
)
def test_searching_a_vast_range_is_work(source):
    with pytest.raises(TemplateError, match="too much work"):
        compile_template(source, engine="liquid").render({})


def test_a_deeply_nested_list_is_no_time_zone():
    value: JsonValue = []
    for _ in range(3000):
        value = [value]
    with pytest.raises(TemplateError, match="no time zone"):
        compile_template("{formatDateTime(1, '%Y', v)}").render({"v": value})


def test_lists_and_maps_still_compare_by_what_they_hold():
    scope = {"a": [{"k": [1]}], "b": [{"k": [1]}], "c": [{"k": [2]}], "d": {"k": [1]}}
    source = "{% if a == b %}1{% endif %}{% if a != c %}2{% endif %}{% if a contains d %}3{% endif %}"
    assert compile_template(source + "{% if c contains d %}4{% endif %}", engine="liquid").render(scope) == "123"


@pytest.mark.usefixtures("tenth_of_the_work")
@pytest.mark.parametrize(
    "made",
    [
        "arrayReduce((acc, x) -> [acc, acc], range(60), 'a')",
        "arrayReduce((acc, x) -> [acc], range(2000), 1)",
        "arrayMap(x -> big, range(50))",
    ],
)
@pytest.mark.parametrize("around", ["{%s}", "about {%s}"])
def test_what_stands_in_an_instruction_is_bounded_however_often_it_holds_the_same(around: str, made: str) -> None:
    template = compile_template(around % made, quoting=True)
    with pytest.raises(TemplateError, match=r"too much work|nested more than 500 deep|more than 1,000,000 characters"):
        template.render({"big": "b" * 30_000})
