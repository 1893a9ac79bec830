"""The expression core of Hog: paths, literals, operators and their precedence."""

from datetime import UTC, datetime

import pytest

from loops.errors import TemplateError
from loops.expressions import compile_expression

SCOPE = {
    "a": {"b": {"c": "deep"}, "list": ["x", "y", "z"], "in": "keyword", "has space": 1},
    "key": "b",
    "second": 2,
    "none": None,
    "n": 10,
    "t": "text",
    "yes": True,
    "labels": ["bug", 5],
    "__now__": datetime(2026, 3, 20, 15, 30, tzinfo=UTC),
}


def value(source, scope=SCOPE):
    return compile_expression(source).evaluate(scope)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a.b.c", "deep"),
        ("a['b'].c", "deep"),
        ("a[key].c", "deep"),
        ("a[key]['c']", "deep"),
        ('a."b".`c`', "deep"),
        ("a?.b?.['c']", "deep"),
        ("a.in", "keyword"),
        ("a['has space']", 1),
        ("a.list[1]", "x"),
        ("a.list.3", "z"),
        ("a.list[-1]", "z"),
        ("a.list[second]", "y"),
        ("a.list[second / 2]", "x"),
        ("a.list[4]", None),
        ("a.list[-4]", None),
        ("a.list.first", None),
        ("a.list[yes]", None),
        ("a[1]", None),
        ("t[1]", None),
        ("none.x.y[1]", None),
        ("a.nope.x", None),
        ("[1, 2, 3][2]", 2),
        ("{'k': {'j': 7}}.k.j", 7),
        ("jsonParse('{\"q\": [9]}').q[1]", 9),
    ],
)
def test_a_path_reads_and_what_is_missing_is_null(source, expected):
    assert value(source) == expected


def test_item_0_does_not_exist_even_when_computed():
    with pytest.raises(TemplateError, match="no item 0"):
        value("a.list[second - 2]")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("5", 5),
        ("1.5", 1.5),
        ("1e3", 1000),
        ("-7", -7),
        ("TRUE", True),
        ("False", False),
        ("NULL", None),
        (r"'it\'s'", "it's"),
        ("'it''s'", "it's"),
        (r"'\n\t\\\x41\0'", "\n\t\\A\0"),
        ("'say \"\"'", 'say ""'),
        ("[]", []),
        ("[1, 'a', [null],]", [1, "a", [None]]),
        ("(1, 2)", [1, 2]),
        ("(1,)", [1]),
        ("{}", {}),
        ("{'a': 1, 2: n,}", {"a": 1, "2": 10}),
    ],
)
def test_literals(source, expected):
    assert value(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("2 * 3 % 4", 2),
        ("-n + 1", -9),
        ("- -5", 5),
        ("7 / 2", 3.5),
        ("4 / 2", 2),
        ("-7 % 3", -1),
        ("5.5 % 2", 1.5),
        ("'5' + 1", 6),
        ("none + 1", 1),
        ("yes + 1", 2),
        ("1 / 0", None),
        ("1 % 0", None),
        ("t + 1", None),
        ("a.list * 2", None),
        ("-t", None),
        ("1e308 * 10", None),
        ("99999999999999999999 * 99999999999999999999", 1e40),
        ("now() - toDateTime('2026-03-20T15:00:00Z')", 1800),
        ("t || '-' || n || none", "text-10"),
    ],
)
def test_arithmetic_is_on_numbers_and_null_where_there_is_none(source, expected):
    assert value(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1 / 0", "Infinity"),
        ("-1 / 0", "-Infinity"),
        ("0 / 0", "NaN"),
        ("1 / 0 + 5", "Infinity"),
        ("t + 1", "NaN"),
        ("round(1 / 0)", "Infinity"),
    ],
)
def test_what_is_no_finite_number_goes_on_as_javascript_has_it_and_is_null_as_json(source, expected):
    assert value(source) is None
    assert value(f"concat({source}, '')") == expected
    assert value(f"jsonStringify([{source}])") == "[null]"
    assert value(f"({source}) = 5 or ({source}) < 5 and ({source}) > 5") is False


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("n = 10", True),
        ("n == '10'", True),
        ("n != 10", False),
        ("n <> 9", True),
        ("n >= 10 and n <= '10'", True),
        ("n > 9 and not n > 10", True),
        ("none < 1", True),
        ("'a' < 'b'", True),
        ("n between 1 and 10", True),
        ("n not between 1 and 9 and yes", True),
        ("none is null", True),
        ("t IS NOT NULL", True),
        ("'bug' in labels", True),
        ("'5' in labels", False),
        ("5 in labels", True),
        ("'bug' not in ('a', 'b')", True),
        ("'ex' in t", True),
        ("'b' in a", True),
        ("'x' in none", False),
        ("t like 'te%'", True),
        ("t like 'e_t'", True),
        ("t like '%z%'", False),
        ("t like 'TEXT'", False),
        ("t ilike 'TEXT'", True),
        ("t not like '%q%'", True),
        ("t not ilike 'TE_T'", False),
        ("none like '%'", False),
        ("none not like '%'", True),
        ("'a.c' like 'a.c'", True),
        ("'abc' like 'a.c'", False),
        ("'a\nb' like 'a%b'", True),
        ("'aab' like 'a_%b'", True),
        ("now() > '2026-03-20T15:29:59Z'", True),
        ("toDateTime('2026-03-20T15:30:00Z') = now()", True),
    ],
)
def test_comparisons(source, expected):
    assert value(source) is expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("none or n", True),
        ("0 or '' or none", False),
        ("n and [] and {}", True),
        ("not n", False),
        ("not none and yes", True),
        ("false or true and false", False),
        ("none ?? 'd'", "d"),
        ("none ?? none ?? 0", 0),
        ("'' ?? 'd'", ""),
        ("n > 5 ? 'big' : 'small'", "big"),
        ("none ? 1 : yes ? 2 : 3", 2),
        ("none ?? n > 5", True),  # ?? binds weaker than a comparison
        ("yes ? {'a': 1} : 2", {"a": 1}),
    ],
)
def test_logic(source, expected):
    assert value(source) == expected
    assert type(value(source)) is type(expected)


def test_only_the_branch_that_is_taken_is_evaluated():
    assert value("none is null ? 'no one' : upper(none)") == "no one"
    assert value("if(isNull(none), 'no one', upper(none))") == "no one"
    assert value("t ?? upper(none)") == "text"
    assert value("coalesce(t, upper(none))") == "text"
    assert value("true or upper(none)") is True
    assert value("false and upper(none)") is False


def test_in_on_a_number_fails():
    with pytest.raises(TemplateError, match="`in` needs a list"):
        value("1 in n")


def test_a_bare_expression_takes_no_text_around_it():
    with pytest.raises(TemplateError, match="`}` closes nothing"):
        compile_expression("a } b {")
    with pytest.raises(TemplateError, match="too early"):
        compile_expression("")


def test_case_86_a_moment_compares_with_iso_text():
    expression = compile_expression("timestamp > toDateTime('2024-01-01')")
    assert expression.evaluate({"timestamp": "2025-06-01T00:00:00Z"}) is True
    assert expression.evaluate({"timestamp": "2023-06-01T00:00:00Z"}) is False


def test_an_expression_says_what_it_reads():
    expression = compile_expression("a.b[key].c = n", path="filters.properties[0].key")
    assert expression.roots == {"a", "key", "n"}
    assert expression.paths == {"a.b", "key", "n"}


def test_an_expression_names_its_path_when_it_fails():
    expression = compile_expression("upper(none)", path="trigger_masking.hash")
    with pytest.raises(TemplateError) as caught:
        expression.evaluate(SCOPE)
    assert caught.value.path == "trigger_masking.hash"
    with pytest.raises(TemplateError) as caught:
        compile_expression("upper(", path="trigger_masking.hash")
    assert caught.value.path == "trigger_masking.hash"


def test_roots_outside_the_allowed_ones_are_refused():
    with pytest.raises(TemplateError) as caught:
        compile_expression("person.id", allowed_roots=frozenset({"event", "groups"}))
    assert "`person` is not available" in caught.value.message
    assert caught.value.hint == "available: event, groups"
