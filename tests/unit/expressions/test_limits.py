"""Nothing that a Hog template holds may hang or exhaust the service, neither when saved nor when rendered."""

import time

import pytest

from loops.errors import TemplateError
from loops.event import JsonValue
from loops.expressions import compile_expression, compile_template

BIG = {"v": {"long": "a" * 1_000_000, "list": list(range(100_000)), "map": {str(i): i for i in range(100_000)}}}
SECONDS = 10  # far above what any of these takes, and far below what an unbounded one would


@pytest.fixture(autouse=True)
def _in_time():
    start = time.monotonic()
    yield
    assert time.monotonic() - start < SECONDS


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
        "{" + "a ? b : " * 10_000 + "c}",
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
        ("{a" + "[a]" * 20_000 + "}", None),
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
