"""/workflows/{id}/forecast: what a loop would have done in the last days. It takes its time, so a form asks for it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from aiohttp import web

from loops.errors import Busy, DefinitionError, RequestError
from loops.event import JsonValue
from loops.store import workflows as store
from server.forecast_words import USUAL_DAYS, wanted_days, warnings
from server.happening import happenings
from server.pages.addresses import wanted_id
from server.pages.money import money
from server.pages.visit import Visit
from server.pages.words import span_words, stage_words
from triggers.forecast_quotas import REFUSED, Example
from triggers.forecast_turns import WAIT_SECONDS
from triggers.forecasting import BUDGET_SECONDS, MOST_DAYS, Forecast

# In their order: from what would have started a run to what it does not listen to.
_COLUMNS: Mapping[str, str] = {
    "start": "Runs",
    "overlap": "Overlap",
    "debounce": "Debounced",
    "rate_limit": "Rate limit",
    "mask": "Masked",
    "claim": "Same fact",
    "subject_limit": "Subject limit",
    "unverified": "Not verified",
    "own_output": "Own output",
    "filters": "Filters",
    "trigger": "Other trigger",
}
FORM: Mapping[str, Any] = {
    "days": str(USUAL_DAYS),
    "most_days": MOST_DAYS,
    "most_seconds": round(WAIT_SECONDS + BUDGET_SECONDS),
}
"""What the form that asks for a forecast says, also on the page of the workflow."""


@dataclass(slots=True)
class Day:
    """What would have come of a day in UTC: events by stage, and tasks."""

    counts: "Counter[str]" = field(default_factory=Counter)
    created: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Came:
    """How many came to an end in this way, and the last deliveries of them, the newest first."""

    words: str
    count: int
    examples: Sequence[Example]


async def ask_forecast(visit: Visit) -> web.Response:
    """GET /workflows/{id}/forecast"""
    return await _page(visit)


async def show_forecast(visit: Visit) -> web.Response:
    """POST /workflows/{id}/forecast, for the days of the field"""
    asked = str((await visit.request.post()).get("days", ""))
    try:
        days = wanted_days(_number(asked))
        found = await visit.services.forecasts.stored(visit.who.project_id, _workflow_id(visit), days)
    except (RequestError, Busy, DefinitionError) as error:
        alert = f"{error.message}: {error.hint}" if error.hint else error.message
        return await _page(visit, error.http_status, days=asked, alert=alert)
    return await _page(visit, days=str(days), **await _shown(visit, found))


def _workflow_id(visit: Visit) -> str:
    return wanted_id(visit.request.match_info["id"], "workflow")


def _number(text: str) -> JsonValue:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else text


async def _page(visit: Visit, status: int = 200, **context: Any) -> web.Response:  # noqa: ANN401
    project, workflow = visit.who.project_id, _workflow_id(visit)
    row = await visit.services.reader.read(lambda connection: store.get(connection, project, workflow))
    return visit.show("forecast.html", status, row=row, **{**FORM, "alert": "", "found": None, **context})


async def _shown(visit: Visit, found: Forecast) -> dict[str, Any]:
    """What the page says of a forecast."""
    came, by_day = came_of(found), days_of(found)
    ids = [example.delivery for one in came for example in one.examples]
    return {
        "found": found,
        "came": came,
        "told": await visit.services.reader.read(lambda connection: happenings(connection, ids)),
        "columns": {stage: _COLUMNS.get(stage, stage_words(stage)) for stage in _stages(found)},
        "by_day": by_day,
        "quiet": (found.until.date() - found.since.date()).days + 1 - len(by_day),
        "cost": cost_words(found),
        "cost_of": lambda tasks: _cost_of(found, tasks),
        "lasts": _lasts(found),
        "warnings": warnings(found),
    }


def _stages(found: Forecast) -> list[str]:
    counts = found.tally.counts
    return [one for one in _COLUMNS if counts[one]] + sorted(one for one in counts if one not in _COLUMNS)


def came_of(found: Forecast) -> list[Came]:
    """What came of the events, stage by stage, and how many tasks would have been refused."""
    tally = found.tally
    came = [Came(stage_words(one, recomputed=True), tally.counts[one], _newest(found, one)) for one in _stages(found)]
    if tally.refused:
        came.insert(1, Came("its task refused by a quota", tally.refused.total(), _newest(found, REFUSED)))
    return came


def _newest(found: Forecast, stage: str) -> list[Example]:
    return list(reversed(found.tally.examples.get(stage, ())))


def days_of(found: Forecast) -> dict[date, Day]:
    """The days on which something would have come of it, the newest first."""
    tally = found.tally
    days: dict[date, Day] = {}
    for at in sorted(tally.hours.keys() | tally.tasks.keys(), reverse=True):
        day = days.setdefault(at.date(), Day())
        day.counts.update(tally.hours.get(at, {}))
        if at in tally.tasks:
            day.created += tally.tasks[at].created
            day.refused += tally.tasks[at].refused
    return days


def cost_words(found: Forecast) -> str:
    """About what it would have cost, and what that is based on; why that is not known."""
    basis, created = found.basis, found.tally.created
    if not found.steps:
        return "Nothing: it creates no task"
    if not created:
        return "Nothing: no task would have been created"
    if basis.cost is None:
        return basis.cost_words
    each = "one task" if created == 1 else f"{created:,} tasks of {money(basis.cost)} each"
    return f"about {money(basis.cost * created)}: {each}, {basis.cost_words}"


def _lasts(found: Forecast) -> str:
    words = found.basis.lasts_words
    return words if words.startswith("assumed") else f"{span_words(found.basis.lasts.total_seconds())}: {words}"


def _cost_of(found: Forecast, tasks: int) -> str:
    """For a column: what so many tasks cost, empty where there are none."""
    if not tasks:
        return ""
    return "unknown" if found.basis.cost is None else money(found.basis.cost * tasks)
