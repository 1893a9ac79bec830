"""Every behaviour that has a number is held by a test that bears it, in its name or in the id of a parameter.

Cases are those that the public tests of PostHog pin; a test of one is `test_case_51_…`, `test_cases_3_4_and_16_…` or
has the id `case-20`. Rows are faults that services like this one were reported for: `test_gh_17_…`, or the id `GH-11`.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

CASES = {
    "masking": range(1, 20),
    "filters of Slack messages": range(20, 33),
    "filters of GitHub events": range(33, 48),
    "GitHub events from deliveries": range(48, 71),
    "filters in general": range(71, 89),
    "inputs and Hog templates": range(95, 103),
    "Liquid templates": range(103, 117),
    "schedules": range(117, 136),
}
EVERY = range(1, 136)
"""The numbers of all cases."""
ROWS = {
    "GitHub's deliveries": "GH-01 GH-02 GH-03 GH-04 GH-06 GH-08 GH-09 GH-10 GH-11 GH-13 GH-14 GH-15 GH-17 GH-19 GH-21 "
    "GH-22 GH-23 GH-24 GH-25 GH-27 GH-30 GH-31",
    "Slack's events": "SL-01 SL-03 SL-04 SL-05 SL-07 SL-08 SL-09 SL-10 SL-14 SL-15 SL-17 SL-18 SL-19 SL-20 SL-21 SL-31 "
    "SL-32",
    "masks, claims and quotas": "MQ-01 MQ-03 MQ-05 MQ-06 MQ-08 MQ-09",
}
ANYWHERE = {
    "agents": "AG-01 AG-02 AG-04 AG-05 AG-08 AG-10 AG-11 AG-12 AG-13 AG-14 AG-15 AG-16 AG-18",
    "email": "EM-01 EM-03 EM-05 EM-07 EM-08 EM-10",
    "Slack's messages": (
        "SL-01 SL-03 SL-04 SL-05 SL-07 SL-08 SL-09 SL-10 SL-14 SL-15 SL-17 SL-18 SL-19 SL-20 SL-21 "
        "SL-23 SL-25 SL-26 SL-27 SL-29 SL-31 SL-32"
    ),
    "templates": "TP-01 TP-02 TP-04 TP-05 TP-06 TP-08",
    "schedules": (
        "SC-01 SC-02 SC-06 SC-07 SC-09 SC-10 SC-11 SC-13 SC-15 SC-16 SC-17 SC-18 SC-19 SC-22 SC-23 "
        "SC-25 SC-27 SC-28 SC-29 SC-30"
    ),
}
"""Rows for which a test of one part alone is enough."""
# What only the order of two processes can break.
RACES = {"GH-14", "GH-15", "GH-21", "GH-25", "GH-27", "SL-04", "SL-05", "MQ-03", "MQ-08"}
# What no storage has a part in: a signature or a text alone decides.
WITHOUT_STORAGE = {"GH-23"}

Borne = Mapping[Path, list[str]]
"""The names of the tests, and the ids of their parameters, by module."""

_CASES = re.compile(r"\bcases?[-_]((?:\d+(?:_and_|_to_|_)?)+)")
_ROWS = re.compile(r"(?:\b|_)(gh|sl|mq|ag|em|tp|sc)[-_]?(\d\d)(?!\d)", re.IGNORECASE)


def names(module: Path) -> Iterator[str]:
    """What the tests of a module are called, and the ids of their parameters."""
    top = ast.parse(module.read_text()).body
    inside = [node for one in top if isinstance(one, ast.ClassDef) for node in one.body]
    for node in top + inside:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name.removeprefix("test_")
            for decorator in node.decorator_list:
                yield from ids(decorator)


def ids(decorator: ast.expr) -> Iterator[str]:
    for node in ast.walk(decorator):
        if isinstance(node, ast.keyword) and node.arg in {"id", "ids"}:
            yield from (
                one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )


def cases(name: str) -> set[int]:
    """The cases that a name bears: `cases_3_4_and_16_…`, `cases_105_to_107_…`, `case-20 …`."""
    found: set[int] = set()
    for told in _CASES.findall(name):
        first, *rest = re.findall(r"(_and_|_to_|_|)(\d+)", told)
        numbers = [int(first[1])]
        for joint, number in rest:
            numbers += range(numbers[-1] + 1, int(number) + 1) if joint == "_to_" else [int(number)]
        found.update(numbers)
    return found


def rows(name: str) -> set[str]:
    """The rows that a name bears."""
    return {f"{kind.upper()}-{number}" for kind, number in _ROWS.findall(name)}


@pytest.fixture(scope="module")
def borne() -> Borne:
    return {path.relative_to(TESTS): [*names(path)] for path in sorted(TESTS.rglob("test_*.py"))}


@pytest.mark.parametrize("subject", CASES)
def test_every_case_has_a_test_that_bears_its_number(subject: str, borne: Borne) -> None:
    found = {number for told in borne.values() for name in told for number in cases(name)}
    assert sorted(set(CASES[subject]) - found) == []


def test_no_test_bears_a_number_that_is_no_case(borne: Borne) -> None:
    told = {name for names in borne.values() for name in names if not cases(name) <= set(EVERY)}
    assert told == set()


@pytest.mark.parametrize("subject", ROWS)
def test_every_row_has_a_test_that_bears_it_where_its_parts_work_together(subject: str, borne: Borne) -> None:
    whole = {"integration", "acceptance"}
    apart = {row for told in borne.values() for name in told for row in rows(name)}
    together = {row for path, told in borne.items() if path.parts[0] in whole for name in told for row in rows(name)}
    wanted = set(ROWS[subject].split())
    assert sorted(wanted - apart) == []
    assert sorted(wanted - WITHOUT_STORAGE - together) == []


@pytest.mark.parametrize("subject", ANYWHERE)
def test_every_row_has_a_test_that_bears_it(subject: str, borne: Borne) -> None:
    found = {row for told in borne.values() for name in told for row in rows(name)}
    assert sorted(set(ANYWHERE[subject].split()) - found) == []


def test_every_race_is_run_by_two_processes(borne: Borne) -> None:
    raced = {row for name in borne[Path("acceptance/test_races.py")] for row in rows(name)}
    assert sorted(RACES - raced) == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("case_114_a_source_of_200_000_characters", {114}),
        ("cases_3_4_and_16_of_the_same_hash", {3, 4, 16}),
        ("cases_105_to_107_dates", {105, 106, 107}),
        ("case-50 first-timer", {50}),
        ("case_6_mq_08_a_window", {6}),
        ("a_case_of_5", set()),
    ],
)
def test_the_numbers_are_read_from_a_name(name: str, told: set[int]) -> None:
    assert cases(name) == told


def test_the_rows_are_read_from_a_name() -> None:
    assert rows("sl_08_sl_14_the_apps_own_reply") == {"SL-08", "SL-14"}
    assert rows("opening_and_labelling_gh_25") == rows("GH-25 in either order") == {"GH-25"}
    assert rows("right_17_gh_175") == set()
