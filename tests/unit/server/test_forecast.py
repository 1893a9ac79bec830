"""What `loops forecast` prints."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from server.cli.entry import run
from server.cli.forecast import _tell, sparkline

SINCE = datetime.fromisoformat("2026-12-01T12:30:00+00:00")


def found(hours: dict[int, int], days: float = 7, **more: Any) -> dict[str, Any]:
    first = SINCE.replace(minute=0)
    return {
        "name": "Triage", "since": SINCE.isoformat(), "until": (SINCE + timedelta(days=days)).isoformat(),
        "deliveries": 1200, "ignored": 3, "unreadable": 0, "events": 1197,
        "counts": {"start": sum(hours.values()), "filters": 1000, "later": 2},
        "hours": [{"at": (first + timedelta(hours=h)).isoformat(), "counts": {"start": n}} for h, n in hours.items()],
        "runs": {"started": 9, "waited": 2, "replaced": 0}, "held": 0,
        "tasks": {"created": 8, "refused": {"parallel": 1}},
        "cost": {"total": 1.234, "each": 0.15, "based_on": "the median of 12 tasks of this project"},
        "run_seconds": {"each": 60.0, "based_on": ""}, "quotas": [{"quota": "workflow"}],
        "warnings": ["it would have reached the limit"], "notes": ["a note"], **more,
    }  # fmt: skip


def test_a_bar_is_as_high_as_its_share_of_the_most_and_time_without_runs_is_empty():
    line, hours = sparkline(found({0: 1, 4: 8, 167: 4}))
    assert hours == 3
    assert (line[0], line[1], line[55], set(line[2:55])) == ("▁", "█", "▄", {" "})


@pytest.mark.parametrize(("days", "hours", "columns"), [(0.5, 1, 12), (7, 3, 56), (90, 39, 56)])
def test_a_line_fits_whatever_the_period(days, hours, columns):
    line, each = sparkline(found({0: 1}, days))
    assert (each, len(line)) == (hours, columns)


def test_without_a_run_there_is_no_line():
    assert sparkline(found({}))[0] == ""


def test_what_came_of_it_what_it_would_have_cost_and_what_it_would_have_reached_is_told(capsys):
    _tell(found({0: 9}))
    assert capsys.readouterr().out.splitlines()[1:] == [
        "looked at  1200 deliveries, 1197 events (3 ignored, 0 unreadable)",
        "        9  start a run",
        "     1000  filters",
        "        2  later",
        "runs       █" + " " * 55 + "  3 h each",
        "overlap    2 waited for their turn, 0 replaced by a newer one",
        "tasks      8 created, 1 refused by quotas",
        "cost       about $1.23: the median of 12 tasks of this project",
        "warning    it would have reached the limit",
        "note       a note",
    ]


@pytest.mark.parametrize("days", ["0", "-1", "0.5", "7.0", "91", "week", "nan", ""])
def test_days_that_are_none_are_wrong_usage(days, capsys):
    assert run(["forecast", "Triage", "--days", days]) == 2
    assert "is not a whole number of days, 1 to 90" in capsys.readouterr().err
