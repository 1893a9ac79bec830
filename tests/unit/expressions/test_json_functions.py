"""Functions that read JSON."""

import pytest

from tests.unit.expressions.evaluating import failure, refusal, same_type, value


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("JSONHas(version.raw, 'a')", True),
        ("JSONHas(version.raw, 'a', 'b', 3)", True),
        ("JSONHas(version.raw, 'a', 'b', 4)", False),
        ("JSONHas(version.raw, 'a', 'b', -3)", True),
        ("JSONHas(version.raw, 'a', 'b', -4)", False),
        ("JSONHas(version.raw, 'a', 'b', 0)", False),
        ("JSONHas(version.raw, 'a', 'b', 'x')", False),
        ("JSONHas(version.raw, 't', 'in', 1)", True),
        ("JSONHas(version, 'raw', 'a')", True),
        ("JSONHas('no json', 'a')", False),
        ("JSONHas(none, 'a')", False),
        ("JSONHas(5, 1)", False),
        ("JSONHas(map, 'k', 2)", True),
        ("isValidJSON('{}')", True),
        ("isValidJSON('1')", True),
        ("isValidJSON('{')", False),
        ("isValidJSON('NaN')", False),
        ("isValidJSON(none)", True),
        ("isValidJSON(map)", False),
        ("JSONLength(version.raw, 'a', 'b')", 3),
        ("JSONLength(version.raw)", 2),
        ("JSONLength(version.raw, 'a', 'b', 1)", 0),
        ("JSONLength('x', 'a')", 0),
        ("JSONLength(map, 'k')", 3),
        ("JSONExtractBool('{\"a\": true}', 'a')", True),
        ("JSONExtractBool('{\"a\": 1}', 'a')", False),
        ("JSONExtractBool('true')", True),
        ("JSONExtractBool('x', 'a')", False),
        ("JSONExtractInt(version.raw, 'a', 'b', 1)", 10),
        ("JSONExtractInt(version.raw, 'a', 'b', 2)", 20),
        ("JSONExtractInt(version.raw, 'a', 'b', 3)", None),
        ("JSONExtractInt(version.raw, 'z')", None),
        ("JSONExtractInt('{\"a\": true}', 'a')", None),
        ("JSONExtractFloat('{\"a\": 1.5}', 'a')", 1.5),
        ("JSONExtractFloat('{\"a\": \"x\"}', 'a')", None),
        ("JSONExtractFloat('x', 'a')", None),
        ("JSONExtractString(version.raw, 'a', 'b', 2)", "20"),
        ("JSONExtractString(version.raw, 'a', 'b', 1)", "10"),
        ("JSONExtractString(version.raw, 'a')", '{"b":[10,"20",null]}'),
        ("JSONExtractString('{\"a\": true}', 'a')", "true"),
        ("JSONExtractString(version.raw, 'a', 'b', 3)", None),
        ("JSONExtractString(none, 'a')", None),
        ("JSONExtractArrayRaw(version.raw, 'a', 'b')", [10, "20", None]),
        ("JSONExtractArrayRaw(version.raw, 'a')", None),
        ("JSONExtractArrayRaw('[1]')", [1]),
        ("JSONExtractArrayRaw('x')", None),
        ("JSONExtract(version.raw, 'a', 'b', 1, 'Int64')", 10),
        ("JSONExtract(version.raw, 'a', 'b', 3, 'Int64')", None),
        ("JSONExtract('[1, 2]', 'Array(Int64)')", [1, 2]),
        ("JSONExtract('x', 'a', 'Int64')", None),
    ],
)
def test_functions_that_read_json(source, expected):
    assert same_type(value(source), expected)


def test_a_text_so_deep_that_nobody_could_read_it_is_no_json():
    deep = "[" * 100_000 + "]" * 100_000
    assert value("isValidJSON(deep)", deep=deep) is False
    assert value("JSONLength(deep)", deep=deep) == 0
    assert "which is not JSON" in failure("jsonParse(deep)", deep=deep)


def test_reading_needs_something_to_read():
    assert "at least 2 arguments" in refusal("JSONHas(map)").message
    assert "at least 1 argument" in refusal("JSONExtractInt()").message
