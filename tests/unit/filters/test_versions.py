from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import FilterError
from tests.unit.filters.events import actuals, holds, one

parts = st.lists(st.integers(0, 3), min_size=1, max_size=4)
OPERATORS = ["eq", "neq", "gt", "gte", "lt", "lte", "tilde", "caret"]


def written(numbers: list[int]) -> str:
    return ".".join(map(str, numbers))


def padded(numbers: list[int]) -> list[int]:
    return numbers + [0] * (5 - len(numbers))


@pytest.mark.parametrize(
    ("operator", "wanted", "inside", "outside"),
    [
        ("tilde", "1.2.3", ["1.2.3", "1.2.99"], ["1.2.2", "1.3.0", "2"]),
        ("tilde", "1.2", ["1.2.0", "1.2.9"], ["1.3", "1.1.9"]),
        ("tilde", "1", ["1.0.0", "1.99"], ["2.0.0", "0.9"]),
        ("caret", "1.2.3", ["1.2.3", "1.9"], ["1.2.2", "2.0.0"]),
        ("caret", "0.2.3", ["0.2.3", "0.2.9"], ["0.3.0", "0.2.2"]),
        ("caret", "0.0.3", ["0.0.3"], ["0.0.4", "0.0.2"]),
        ("caret", "0", ["0.0.1", "0.9"], ["1"]),
        ("wildcard", "1.*", ["1", "1.9.9"], ["2", "0.9"]),
        ("wildcard", "1.2.*", ["1.2", "1.2.9"], ["1.3.0", "1.1"]),
        ("wildcard", "1.2.3.*", ["1.2.3", "1.2.3.9"], ["1.2.4.0", "1.2.2"]),
        ("eq", "1.2", ["1.2.0", "1.2", "1.2.0-beta", 1.2], ["1.2.1"]),
        ("neq", "1.2", ["1.2.1"], ["1.2.0", "1.2.0-rc.1"]),
        ("gt", "1.9", ["1.10"], ["1.9", "1.2"]),
        ("gte", "1.9", ["1.9.0"], ["1.8"]),
        ("lt", "1.10", ["1.9"], ["1.10"]),
        ("lte", ["1", "1.10"], ["1.10"], ["1.11"]),
        ("neq", ["1.2", "1.3"], ["1.4"], ["1.2", "1.3"]),
    ],
)
def test_versions_compare_number_by_number(operator: str, wanted: Any, inside: list[Any], outside: list[Any]) -> None:
    assert [holds(f"semver_{operator}", wanted, one) for one in inside] == [True] * len(inside)
    assert [holds(f"semver_{operator}", wanted, one) for one in outside] == [False] * len(outside)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("actual", [None, "", "latest", "v1.2.3", "1..2", "1.2.x", True, ["1.2.3"], {}, "1" * 600])
def test_what_is_no_version_passes_none_of_them_not_even_neq(operator: str, actual: Any) -> None:
    assert not holds(f"semver_{operator}", "1.2.3", actual)


@given(wanted=parts, actual=parts)
def test_versions_order_as_their_numbers_do_with_zeros_at_the_end(wanted: list[int], actual: list[int]) -> None:
    low, high = padded(actual), padded(wanted)
    expected = {"eq": low == high, "neq": low != high, "gt": low > high, "gte": low >= high, "lt": low < high}
    expected["lte"] = low <= high
    for operator, rule in expected.items():
        assert holds(f"semver_{operator}", written(wanted), f"{written(actual)}-rc.1") is rule


@given(wanted=parts, actual=parts)
def test_a_caret_reaches_as_far_as_a_tilde(wanted: list[int], actual: list[int]) -> None:
    for operator in ("tilde", "caret"):
        assert holds(f"semver_{operator}", written(wanted), written(wanted))
        if holds(f"semver_{operator}", written(wanted), written(actual)):
            assert holds("semver_gte", written(wanted), written(actual))
            assert actual[0] == wanted[0]
    if wanted[0] and holds("semver_tilde", written(wanted), written(actual)):
        assert holds("semver_caret", written(wanted), written(actual))


@given(actual=actuals)
def test_eq_and_neq_share_out_the_versions(actual: Any) -> None:
    is_version = holds("semver_gte", "0", actual)
    assert (holds("semver_eq", "1.2.3", actual) or holds("semver_neq", "1.2.3", actual)) is is_version


@pytest.mark.parametrize(
    ("operator", "wanted"),
    [
        ("semver_gt", "latest"),
        ("semver_eq", ["1.2", "x"]),
        ("semver_eq", ""),
        ("semver_eq", True),
        ("semver_tilde", "~1.2"),
        ("semver_wildcard", "1.2"),
        ("semver_wildcard", "*"),
        ("semver_wildcard", 1.2),
        ("semver_wildcard", "1.*.2"),
    ],
)
def test_a_wanted_version_that_is_none_is_refused(operator: str, wanted: Any) -> None:
    with pytest.raises(FilterError) as caught:
        one("p", operator, wanted)
    (fault,) = caught.value.faults
    assert fault.path == "filters.properties[0].value"
    assert "is no version" in fault.message
    assert "1.2" in fault.hint
