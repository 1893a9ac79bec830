"""Functions of lists and maps, with the functions that are called for each item."""

import pytest

from tests.unit.expressions.evaluating import failure, refusal, same_type, value


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("keys(map)", ["k", "z"]),
        ("keys(['a', 'b'])", [0, 1]),
        ("keys(none)", []),
        ("keys('ab')", []),
        ("values(map)", [["v", None, 1.0], 2]),
        ("values(list)", ["a", "b", 1, True]),
        ("values(5)", []),
        ("tuple()", []),
        ("tuple(1, 'a', none)", [1, "a", None]),
        ("tuple(toDate('2026-01-02'))", ["2026-01-02"]),
        ("indexOf(list, 'b')", 2),
        ("indexOf(list, true)", 4),
        ("indexOf(list, 1)", 3),
        ("indexOf(list, '1')", 0),
        ("indexOf(none, 1)", 0),
        ("indexOf('abc', 'b')", 0),
        ("indexOf([none], none)", 1),
        ("in('a', list)", True),
        ("in('1', list)", False),
        ("in('a', 'abc')", False),
        ("in('a', none)", False),
        ("not in('a', list)", False),
        ("arrayPushBack([1], 2)", [1, 2]),
        ("arrayPushBack(none, 2)", [2]),
        ("arrayPushBack([], now())", ["2026-03-28T15:04:05.000Z"]),
        ("arrayPushFront([1], 2)", [2, 1]),
        ("arrayPushFront('x', 2)", [2]),
        ("arrayPopBack([1, 2])", [1]),
        ("arrayPopBack([])", []),
        ("arrayPopBack(none)", []),
        ("arrayPopFront([1, 2])", [2]),
        ("arrayPopFront('ab')", []),
        ("arrayReverse([1, 'a', none])", [None, "a", 1]),
        ("arrayReverse(none)", []),
        ("arraySort([10, 9, 1.5, -2])", [-2, 1.5, 9, 10]),
        ("arraySort(['b', 'B', 'a', '10', '9'])", ["10", "9", "B", "a", "b"]),
        ("arraySort([true, none, 'a', 3, false])", [3, "a", False, True, None]),
        ("arraySort([nan, 1])", [1, None]),
        ("arraySort(none)", []),
        ("arrayReverseSort([1, 10, 9])", [10, 9, 1]),
        ("arrayReverseSort('x')", []),
        ("arrayStringConcat(['a', none, 1, true, [1]], '-')", "a--1-true-[1]"),
        ("arrayStringConcat(['a', 'b'])", "ab"),
        ("arrayStringConcat(['a', 'b'], none)", "ab"),
        ("arrayStringConcat([], '-')", ""),
        ("arrayStringConcat('ab', '-')", ""),
        ("range(3)", [0, 1, 2]),
        ("range(2, 5)", [2, 3, 4]),
        ("range(5, 2)", []),
        ("range(-1)", []),
        ("range('3')", [0, 1, 2]),
        ("range(2.0)", [0, 1]),
        ("sortableSemver('v1.10.2-beta.3')", [1, 10, 2]),
        ("sortableSemver('2')", []),
        ("sortableSemver(none)", []),
        ("sortableSemver(1.5)", [1, 5]),
        ("length(arrayPushBack(range(3), 3))", 4),
    ],
)
def test_functions_of_lists(source, expected):
    assert same_type(value(source), expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("arrayMap(x -> x.name, labels)", ["bug", "ui"]),
        ("arrayMap(x -> x * 2, [1, 2])", [2, 4]),
        ("arrayMap(x -> toDate(x), ['2026-01-02'])", ["2026-01-02"]),
        ("arrayMap(x -> none, [1])", [None]),
        ("arrayMap(v -> v, map)", [["v", None, 1.0], 2]),
        ("arrayMap(x -> x, none)", []),
        ("arrayMap(x -> x, 'ab')", []),
        ("arrayFilter(x -> x.n > 5, labels)", [{"name": "ui", "n": 10}]),
        ("arrayFilter(x -> x, [0, 1, '', 'a', none, []])", [1, "a", []]),
        ("arrayExists(x -> x = 'b', list)", True),
        ("arrayExists(x -> x = 'z', list)", False),
        ("arrayExists(x -> true, [])", False),
        ("arrayCount(x -> x.n >= 2, labels)", 2),
        ("arrayCount(x -> x, none)", 0),
        ("arrayReduce((sum, x) -> sum + x.n, labels, 0)", 12),
        ("arrayReduce((longest, x) -> if(length(x) > length(longest), x, longest), ['a', 'ccc', 'bb'], '')", "ccc"),
        ("arrayReduce((a, x) -> x, [], 'first')", "first"),
        # Functions in functions see the parameters around them; the innermost name counts.
        ("arrayMap(x -> arrayMap(y -> x * 10 + y, [1, 2]), [1, 2])", [[11, 12], [21, 22]]),
        ("arrayMap(x -> arrayMap(x -> x + 1, [x]), [1, 2])", [[2], [3]]),
        ("arrayMap(x -> arrayReduce((x, y) -> x + y, [1, 2], 0) + x, [10])", [13]),
        ("arrayMap(x -> arrayCount(y -> y = x, ['a', 'a']), ['a', 'b'])", [2, 0]),
        # A parameter hides the name of the same spelling outside.
        ("arrayMap(text -> upper(text), ['a'])", ["A"]),
        ("arrayMap(x -> f'{x.name}: {x.n}', labels)", ["bug: 2", "ui: 10"]),
        ("arrayMap((x) -> x[1], [['a'], []])", ["a", None]),
        ("arrayMap(x -> x > 1 ? 'many' : 'one', [1, 2])", ["one", "many"]),
        ("arrayStringConcat(arrayMap(x -> concat('#', x.n), labels), ', ')", "#2, #10"),
    ],
)
def test_functions_are_called_for_each_item(source, expected):
    assert same_type(value(source), expected)


def test_a_parameter_ends_with_its_function():
    assert "`x` is not known here" in failure("concat(arrayCount(x -> x, [1]), x)")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("arrayMap(lower, list)", "arrayMap() needs a function first"),
        ("arrayMap('x', list)", "arrayMap() needs a function first"),
        ("arrayReduce(x, list, 0)", "such as (sum, x) -> sum + x"),
        ("arrayMap((a, b) -> a, list)", "arrayMap() gives 1 value, not 2"),
        ("arrayReduce(x -> x, list, 0)", "arrayReduce() gives 2 values, not 1"),
        ("arrayReduce((x, x) -> x, list, 0)", "stand the names of the parameters"),
        ("arrayMap(x.y -> x, list)", "stand the names of the parameters"),
        ("arrayMap(1 -> 2, list)", "stand the names of the parameters"),
        ("arrayMap(x -> x)", "arrayMap() takes 2 arguments, not 1"),
        ("arrayReduce((a, x) -> a, list)", "arrayReduce() takes 3 arguments, not 2"),
        ("x -> x", "a function stands only where another one calls it"),
        ("[x -> x]", "a function stands only where another one calls it"),
        ("lower(x -> x)", "a function stands only where another one calls it"),
        ("arrayMap(x -> y -> x, list)", "a function stands only where another one calls it"),
    ],
)
def test_a_function_that_stands_wrong_is_refused_when_saved(source, says):
    error = refusal(source)
    assert says in f"{error.message} {error.hint}"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("arraySort(labels)", "arraySort() needs a list of numbers and texts, not a list"),
        ("arrayReverseSort([[1]])", "arrayReverseSort() needs a list of numbers and texts"),
        ("range('a')", "range() needs a number, not the text 'a'"),
        ("range('')", "range() needs a number"),
        ("range(none)", "range() needs a number, not null"),
        ("range(true)", "range() needs a number, not a boolean"),
        ("range(1.5)", "range() needs a whole number"),
        ("range(1e300)", "at most 100,000 numbers"),
        ("range(100001)", "range() makes at most 100,000 numbers, not 100,001"),
        ("arrayMap(x -> upper(x), [none])", "upper() needs a text, not null"),
        ("arrayMap(x -> x[0], [[1]])", "a list has no item 0"),
    ],
)
def test_a_value_that_a_function_of_lists_cannot_take_fails_and_is_named(source, says):
    if "[0]" in source:
        assert "there is no item 0" in refusal(source).message
    else:
        assert says in failure(source)


@pytest.mark.parametrize(
    "source",
    [
        "arrayMap(x -> range(320), range(320))",
        "arrayMap(x -> arrayMap(y -> arrayMap(z -> 1, range(46)), range(46)), range(46))",
        "arrayReduce((acc, x) -> arrayPushBack(acc, x), range(10000), [])",
        "arrayReduce((acc, x) -> [acc, acc], range(60), 'a')",
        "arrayReduce((acc, x) -> {'l': acc, 'r': acc}, range(60), [])",
        "arrayReduce((acc, x) -> tuple(acc, acc, acc), range(60), 'a')",
        "arrayMap(x -> sha256HmacChainHex([big, big]), range(10000))",
        "arrayMap(x -> JSONExtractInt({'a': big}, 'a'), range(10000))",
        "arrayMap(x -> JSONHas({'a': big}, 'a', 'b'), range(10000))",
        "arrayMap(x -> arraySort([big, big, big]), range(10000))",
        "arrayMap(x -> arrayStringConcat([big, big]), range(10000))",
        "arrayMap(x -> multiSearchAnyCaseInsensitive(big, ['b', 'c', 'd']), range(10000))",
        "arrayMap(x -> jsonParse(json), range(10000))",
        "arrayMap(x -> splitByString('', big), range(10000))",
        "arrayMap(x -> sortableSemver(big), range(10000))",
        "arrayMap(x -> match(big, '[b-z]$'), range(10000))",
        "arrayMap(x -> formatDateTime(1, big), range(10000))",
        "arrayMap(x -> x" + ".a" * 1000 + ", range(10000))",
        "arrayMap(x -> x" + " is null" * 1000 + ", range(10000))",
        "arrayMap(x -> 1" + " + 1" * 1000 + ", range(10000))",
        "arrayMap(x -> f'" + "{x}" * 1000 + "', range(10000))",
        "arrayCount(x -> values(map), range(10000)) + " * 50 + "1",
    ],
)
@pytest.mark.usefixtures("tenth_of_the_work")
def test_no_function_of_items_does_endless_work(source):
    said = failure(source, big="a" * 40_000, json="[" + "1," * 10_000 + "1]")
    assert "too much work" in said or "more than 1,000,000 characters" in said


def test_a_value_is_not_nested_endlessly():
    assert "nested more than 500 deep" in failure("arrayReduce((acc, x) -> [acc], range(2000), 1)")
    assert value("length(arrayReduce((acc, x) -> [acc], range(2000), 1))") == 1


def test_handing_on_a_large_value_of_an_event_costs_nothing():
    large = {"a": [{"n": number} for number in range(400_000)]}
    assert value("coalesce(none, large)", large=large) is large
    assert value("if(true, large.a, none)", large=large) is large["a"]
