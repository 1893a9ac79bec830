from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import FilterError
from tests.unit.filters.events import actuals, holds, one

numbers = st.integers(-20, 20) | st.floats(-20, 20)


@pytest.mark.parametrize(
    ("operator", "wanted", "actual", "expected"),
    [
        pytest.param("gt", "5", "10", True, id="d6-by-D6 both are texts of numbers"),
        pytest.param("gt", 5, "10", True, id="d7"),
        pytest.param("gt", "5", 10, True, id="D6 a number against a text of one"),
        pytest.param("lt", "9", "10", False, id="D6 ten is not below nine"),
        pytest.param("lt", 5, None, False, id="d8-by-D4"),
        pytest.param("gte", 0, None, False, id="D4 null is not 0"),
        pytest.param("lte", 0, None, False, id="D4 null is not 0 either way"),
        pytest.param("between", [0, 10], None, False, id="d9-by-D4"),
        pytest.param("not_between", [5, 10], None, True, id="D4 not_between is negative"),
        pytest.param("gt", "2026-03-01", "2026-03-02T00:00:00+14:00", True, id="D6 dates"),
        pytest.param("gt", "2026-03-02T00:00:00Z", "2026-03-02T00:30:00+01:00", False, id="D6 dates with offsets"),
        pytest.param("lt", "b", "a", True, id="D6 texts"),
        pytest.param("gt", "b", "ab", False, id="D6 texts by their letters"),
        pytest.param("gt", 5, "abc", True, id="D6 else as text"),
        pytest.param("gte", 0, "", False, id="D6 a blank text is no number"),
        pytest.param("gt", 0, True, True, id="true is 1"),
        pytest.param("gt", 0, ["5"], False, id="a list has no order"),
        pytest.param("lt", "z", {"a": 1}, False, id="an object has no order"),
        pytest.param("gte", 5, 5, True, id="gte"),
        pytest.param("min", 5, 5, True, id="min is gte"),
        pytest.param("lte", 5, "5.0", True, id="lte"),
        pytest.param("max", 5, 6, False, id="max is lte"),
        pytest.param("gt", [100, 5], 6, True, id="a list is any of it"),
        pytest.param("between", [1, "10"], "10.0", True, id="both ends are inside"),
        pytest.param("between", [1, 10], "abc", False, id="no number is between none"),
        pytest.param("not_between", [1, 10], "abc", True, id="and so it is not between"),
        pytest.param("not_between", [1, 10], 10, False, id="not at the end"),
    ],
)
def test_values_are_ordered_as_numbers_then_dates_then_text(
    operator: str, wanted: Any, actual: Any, expected: bool
) -> None:
    assert holds(operator, wanted, actual) is expected


@given(wanted=numbers, actual=numbers)
def test_numbers_order_the_same_whichever_side_is_a_text(wanted: Any, actual: Any) -> None:
    sides = [(wanted, actual), (repr(wanted), actual), (wanted, repr(actual)), (repr(wanted), repr(actual))]
    for operator, rule in {"gt": actual > wanted, "gte": actual >= wanted, "lt": actual < wanted}.items():
        assert [holds(operator, one, other) for one, other in sides] == [rule] * 4


@given(wanted=st.integers(-20, 20) | st.sampled_from(["a", "5", "2026-03-29", ""]), actual=actuals)
def test_what_has_an_order_is_either_at_most_or_more(wanted: Any, actual: Any) -> None:
    if actual is None or isinstance(actual, (list, dict)):
        assert not holds("gt", wanted, actual)
        assert not holds("lte", wanted, actual)
        return
    assert holds("gt", wanted, actual) is not holds("lte", wanted, actual)
    assert holds("lt", wanted, actual) is not holds("gte", wanted, actual)
    assert holds("gte", wanted, actual) is (holds("gt", wanted, actual) or not holds("lt", wanted, actual))


@pytest.mark.parametrize("wanted", [[1], [1, 2, 3], [2, 1], ["a", "b"], 5, None, [], [1, None], ["", 1], [True, [2]]])
@pytest.mark.parametrize("operator", ["between", "not_between"])
def test_a_range_that_is_none_is_refused(operator: str, wanted: Any) -> None:
    with pytest.raises(FilterError) as caught:
        one("p", operator, wanted)
    (fault,) = caught.value.faults
    assert fault.path == "filters.properties[0].value"
    assert "[1, 10]" in fault.hint
