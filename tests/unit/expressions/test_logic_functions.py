"""Functions that choose, compare, count and tell what a value is; and every function by its name."""

import pytest

from loops.expressions import compile_expression
from loops.expressions.functions import FUNCTIONS
from tests.unit.expressions.evaluating import failure, refusal, same_type, value

# What PostHog's standard library has, without `sleep`.
NAMES = """
    concat match extractRegex like ilike notLike notILike toString toUUID toInt toFloat ifNull isNull isNotNull
    length empty notEmpty tuple lower upper reverse print jsonParse jsonStringify JSONHas isValidJSON JSONLength
    JSONExtractBool base64Encode base64Decode tryBase64Decode encodeURLComponent decodeURLComponent
    tryDecodeURLComponent replaceOne replaceAll position positionCaseInsensitive trim trimLeft trimRight
    splitByString generateUUIDv4 randomFloat sha256Hex sha256 sha1Hex sha1 md5Hex md5 sha1HmacChainHex sha1HmacChain
    sha256HmacChainHex sha256HmacChain isIPAddressInRange keys values indexOf arrayPushBack arrayPushFront
    arrayPopBack arrayPopFront arraySort arrayReverse arrayReverseSort arrayStringConcat has now toUnixTimestamp
    fromUnixTimestamp toUnixTimestampMilli fromUnixTimestampMilli toTimeZone toDate toDateTime formatDateTime
    HogError Error RetryError NotImplementedError typeof JSONExtract JSONExtractArrayRaw JSONExtractFloat
    JSONExtractInt JSONExtractString addDays assumeNotNull coalesce dateAdd dateDiff dateTrunc equals extract floor
    greater greaterOrEquals if in less lessOrEquals min2 minus multiIf notEquals and or plus range round startsWith
    substring toIntervalDay toIntervalHour toIntervalMinute toIntervalMonth toMonth toStartOfDay toStartOfHour
    toStartOfMonth toStartOfWeek toYYYYMM toYear today multiSearchAnyCaseInsensitive arrayMap arrayExists
    arrayFilter arrayCount arrayReduce sortableSemver
"""


def test_every_function_of_the_language_is_there_and_no_other():
    assert set(FUNCTIONS) == set(NAMES.split())  # `not(x)` is the operator with parentheses


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("and(1, 'a')", True),
        ("and(1, 0, upper(none))", False),
        ("or(0, '', none)", False),
        ("or(1, upper(none))", True),
        ("not(true)", False),
        ("not (none)", True),
        ("and(true, or(false, true)) and in(1, [1])", True),
        ("true and not in(1, [2])", True),
        ("1 in (1, 2) and 3 not in (1, 2)", True),
        ("'a' like ('a') and not like('a', 'b')", True),
        ("none in (1, 2) or like ('a', 'a')", True),
        ("multiIf(0, 'a', 1, 'b', 'c')", "b"),
        ("multiIf(0, upper(none), none, 'b', 'c')", "c"),
        ("assumeNotNull(0)", 0),
        ("equals(1, 1)", True),
        ("equals(1, 1.0)", True),
        ("equals('1', 1)", False),
        ("equals(true, 1)", False),
        ("equals(none, none)", True),
        ("equals([1], [1])", False),
        ("equals(today(), toDate('2026-03-28'))", True),
        ("notEquals('1', 1)", True),
        ("greater('b', 'a')", True),
        ("greater(10, '9')", True),
        ("greater('10', '9')", False),
        ("greater(now(), today())", True),
        ("greaterOrEquals(1, 1)", True),
        ("greaterOrEquals('x', 1)", False),
        ("less(none, 1)", True),
        ("less([], 1)", False),
        ("lessOrEquals(1, 1)", True),
        ("min2(2, 1)", 1),
        ("min2('b', 'a')", "a"),
        ("min2('x', 1)", 1),
        ("plus(1, 2)", 3),
        ("plus('1', 2)", 3),
        ("plus(none, 2)", 2),
        ("plus(0.1, 0.2)", 0.1 + 0.2),
        ("minus(now(), toIntervalDay(1))", "2026-03-27T15:04:05.000Z"),
        ("minus(1, 2)", -1),
        ("typeof(none)", "null"),
        ("typeof(true)", "boolean"),
        ("typeof(1)", "integer"),
        ("typeof(1.0)", "integer"),
        ("typeof(1.5)", "float"),
        ("typeof(nan)", "float"),
        ("typeof('')", "string"),
        ("typeof([])", "array"),
        ("typeof((1, 2))", "array"),
        ("typeof(map)", "object"),
        ("typeof(now())", "datetime"),
        ("typeof(today())", "date"),
        ("typeof(Error('x'))", "error"),
        ("Error()", {"__hogError__": True, "type": "Error", "message": "An error occurred", "payload": None}),
        ("RetryError('again', {'in': 5}).payload.in", 5),
        ("HogError('Odd', 'x', now()).payload", "2026-03-28T15:04:05.000Z"),
        ("NotImplementedError('x').type", "NotImplementedError"),
        ("print('a', none)", None),
    ],
)
def test_functions_that_choose_and_compare(source, expected):
    assert same_type(value(source), expected)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("assumeNotNull(none)", "assumeNotNull() got null"),
        ("plus('a', 1)", "plus() needs numbers, not the text 'a'"),
        ("minus(1, 'b')", "minus() needs numbers, not the text 'b'"),
        ("HogError(5)", "needs texts for its type and message"),
        ("Error(map)", "needs texts for its type and message"),
        ("print(upper(none))", "upper() needs a text, not null"),
    ],
)
def test_a_value_that_a_function_cannot_take_fails_and_is_named(source, says):
    assert says in failure(source)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("multiIf(1, 2, 3, 4)", "an odd number of arguments, not 4"),
        ("multiIf(1, 2)", "takes at least 3 arguments, not 2"),
        ("and(1)", "and() takes at least 2 arguments, not 1"),
        ("in(1)", "in() takes 2 arguments, not 1"),
        ("equals(1)", "equals() takes 2 arguments, not 1"),
        ("today(1)", "today() takes 0 arguments, not 1"),
        ("sleep(1)", "there is no function sleep()"),
    ],
)
def test_a_call_that_cannot_be_right_is_refused_when_saved(source, says):
    assert says in refusal(source).message


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("arraymap", "arrayMap()"),
        ("sha256hex", "sha256Hex()"),
        ("formatDatetime", "formatDateTime()"),
        ("toStartOfYear", "toStartOfDay()"),
        ("jsonExtractString", "JSONExtractString()"),
    ],
)
def test_an_unknown_function_is_refused_with_the_nearest_known_name(written, meant):
    error = refusal(f"{written}(1)")
    assert f"there is no function {written}()" in error.message
    assert error.hint == f"did you mean {meant}?"


@pytest.mark.parametrize("name", ["and", "or", "in", "like", "ilike"])
def test_a_word_that_is_an_operator_too_is_none_where_a_value_begins(name):
    assert compile_expression(f"[{name}(a, b), 1]").roots == {"a", "b"}
    assert compile_expression(f"a {name} (b)").roots == {"a", "b"}
    assert compile_expression(f"not {name}(a, b)").roots == {"a", "b"}


@pytest.mark.parametrize(("timestamp", "later"), [("2025-01-01T00:00:00Z", True), ("2023-01-01T00:00:00Z", False)])
def test_case_86_a_timestamp_is_compared_with_a_moment(timestamp, later):
    assert value("timestamp > toDateTime('2024-01-01')", timestamp=timestamp) is later
