"""Hog's functions, as the virtual machine has them."""

import json
from datetime import UTC, datetime

import pytest

from loops.errors import TemplateError
from loops.expressions import compile_expression

SCOPE = {
    "none": None,
    "text": "Fire!",
    "list": ["a", "b", 1, True],
    "map": {"k": ["v", None, 1.0]},
    "odd": {"nan": float("nan"), "surrogate": "\ud800"},
    "stamp": "2024-03-05T07:08:09.120Z",
    "__now__": datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC),
}


def value(source):
    return compile_expression(source).evaluate(SCOPE)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("concat('a', none, 1, true, list)", "a1true['a', 'b', 1, true]"),
        ("toString(none)", "null"),
        ("toString(map)", "{'k': ['v', null, 1]}"),
        ("toInt('12abc')", 12),
        ("toInt('x')", None),
        ("toInt(3.9)", 3),
        ("toInt(-3.9)", -3),
        ("toInt(true)", None),
        ("toInt(none)", None),
        ("toInt(toDateTime('1970-01-02'))", 86400),
        ("toFloat(' 1.50x')", 1.5),
        ("toFloat('x')", None),
        ("toFloat('1e999')", None),
        ("toFloat(false)", None),
        ("lower(text)", "fire!"),
        ("lower(none)", None),
        ("upper(text)", "FIRE!"),
        ("length(text)", 5),
        ("length(list)", 4),
        ("length(map)", 1),
        ("empty(none)", True),
        ("empty('')", True),
        ("empty([])", True),
        ("empty({})", True),
        ("empty(0)", False),
        ("empty(false)", False),
        ("notEmpty(list)", True),
        ("ifNull(none, 2)", 2),
        ("ifNull(0, 2)", 0),
        ("isNull(none)", True),
        ("isNotNull(none)", False),
        ("coalesce(none, none, 'c')", "c"),
        ("coalesce(none)", None),
        ("if(0, 'a', 'b')", "b"),
        ("trim('  a b ')", "a b"),
        ("trim('xxaxbxx', 'x')", "axb"),
        ("trim('xxx', 'x')", ""),
        ("trim('abab', 'ab')", ""),
        ("replaceAll('a.b.c', '.', '-')", "a-b-c"),
        ("replaceAll('aaa', 'a', '')", ""),
        ("splitByString(', ', 'a, b, c')", ["a", "b", "c"]),
        ("splitByString(',', 'a,b,c', 2)", ["a", "b"]),
        ("splitByString('', 'abc')", ["a", "b", "c"]),
        ("substring('hello', 2, 3)", "ell"),
        ("substring('hello', 2)", "ello"),
        ("substring('hello', 0, 2)", ""),
        ("substring('hello', 9)", ""),
        ("substring(none, 1)", ""),
        ("position('hello', 'l')", 3),
        ("position('hello', 'z')", 0),
        ("position(none, 'z')", 0),
        ("round(2.5)", 3),
        ("round(-2.5)", -2),
        ("round(2.44, 1)", 2),
        ("round('x')", None),
        ("floor(-1.5)", -2),
        ("floor(3)", 3),
        ("has(list, 'a')", True),
        ("has(list, '1')", False),
        ("has('abc', 'a')", False),
        ("has(none, 'a')", False),
        ("jsonParse('[1, {\"a\": null}]')", [1, {"a": None}]),
        ("jsonParse('5')", 5),
        ("jsonParse(list)", ["a", "b", 1, True]),
    ],
)
def test_functions_give_what_the_virtual_machine_gives(source, expected):
    result = value(source)
    assert result == expected
    assert type(result) is type(expected)


def test_json_is_compact_and_has_no_number_that_json_lacks():
    assert value("jsonStringify(map)") == '{"k":["v",null,1]}'
    assert value("jsonStringify(none)") == "null"
    assert value("jsonStringify(now())") == '"2026-01-02T15:04:05.000Z"'
    assert value("jsonStringify([now()])") == '["2026-01-02T15:04:05.000Z"]'
    assert value("jsonStringify(odd)") == '{"nan":null,"surrogate":"\\ud800"}'
    assert value("jsonStringify('a\"<é>')") == '"a\\"<é>"'


def test_json_can_be_indented():
    assert value("jsonStringify(map, 2)") == json.dumps({"k": ["v", None, 1]}, indent=2)


@pytest.mark.parametrize("text", ["x", "{", "NaN", "[Infinity]", "[" * 5000])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(TemplateError, match="which is not JSON"):
        compile_expression("jsonParse(text)").evaluate({"text": text})


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("upper(none)", "upper() needs a text, not null"),
        ("lower(5)", "lower() needs a text, not a number"),
        ("length(none)", "length() needs a text, a list or a map, not null"),
        ("length(true)", "not a boolean"),
        ("trim(list)", "trim() needs a text, not a list"),
        ("replaceAll(none, 'a', 'b')", "replaceAll() needs a text, not null"),
        ("splitByString(',', map)", "splitByString() needs a text, not a map"),
        ("toDateTime('soon')", "toDateTime() needs ISO text such as"),
        ("toDateTime(none)", "not null"),
        ("toDateTime(1e300)", "not a number"),
        ("formatDateTime('soon', '%Y')", "formatDateTime() needs a date"),
        ("formatDateTime(now(), 5)", "formatDateTime() needs a text, not a number"),
        ("formatDateTime(now(), '%v')", "does not know %v"),
        ("formatDateTime(now(), '100%')", "does not know %"),
        ("formatDateTime(now(), '%H', 'Nowhere/Land')", "there is no time zone 'Nowhere/Land'"),
        ("formatDateTime(now(), '%H', '../../etc/passwd')", "there is no time zone"),
        ("upper(now())", "not a date"),
        ("upper(toFloat('5'))", "not a number"),
    ],
)
def test_a_value_that_a_function_cannot_take_fails_and_is_named(source, says):
    with pytest.raises(TemplateError) as caught:
        value(source)
    assert says in caught.value.message


def test_now_is_the_clock_of_the_scope():
    assert value("now()") == "2026-01-02T15:04:05.000Z"
    assert value("now('Europe/Berlin')") == "2026-01-02T16:04:05.000+01:00"
    naive = {"__now__": datetime(2026, 1, 2)}  # noqa: DTZ001
    assert compile_expression("now()").evaluate(naive) == "2026-01-02T00:00:00.000Z"


def test_now_without_a_clock_is_the_present():
    before = datetime.now(UTC)
    result = compile_expression("now()").evaluate({})
    assert isinstance(result, str)
    assert abs((datetime.fromisoformat(result) - before).total_seconds()) < 60


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("toDateTime('2024-03-05 07:08')", "2024-03-05T07:08:00.000Z"),
        ("toDateTime('2024-03-05 07:08', 'Europe/Berlin')", "2024-03-05T07:08:00.000+01:00"),
        ("toDateTime('2024-03-05T07:08:00Z', 'Europe/Berlin')", "2024-03-05T08:08:00.000+01:00"),
        ("toDateTime(0)", "1970-01-01T00:00:00.000Z"),
        ("toDateTime(toDateTime(0))", "1970-01-01T00:00:00.000Z"),
    ],
)
def test_dates_read_iso_text_and_epoch_seconds(source, expected):
    assert value(source) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("%Y-%m-%d", "2024-03-05"),
        ("%H:%i:%S.%f", "07:08:09.120"),
        ("%M %e, %y (%b, %W, %a)", "March 5, 24 (Mar, Tuesday, Tue)"),
        ("%I %p %h %l %k", "07 AM 07 07 07"),
        ("%D %F %T %R %r", "03/05/24 2024-03-05 07:08:09 07:08 07:08 AM"),
        ("%j %u %w %V %Q %c %C %g %G %s", "065 2 2 10 1 03 24 24 2024 09"),
        ("%z %% %n%t", "+0000 % \n\t"),
    ],
)
def test_dates_are_written_by_clickhouse_directives(pattern, expected):
    assert compile_expression("formatDateTime(stamp, pattern)").evaluate({**SCOPE, "pattern": pattern}) == expected


def test_a_date_is_written_by_the_clock_of_a_zone():
    assert value("formatDateTime(stamp, '%H:%i %z', 'Asia/Kolkata')") == "12:38 +0530"


def test_a_date_that_no_zone_can_show_fails():
    with pytest.raises(TemplateError, match="too early or too late"):
        value("formatDateTime('0001-01-01', '%Y', 'America/New_York')")


def test_a_hash_by_day_is_built_from_functions():
    source = "concat(toString(5), '-', formatDateTime(now(), '%Y-%m-%d'))"
    assert value(source) == "5-2026-01-02"
