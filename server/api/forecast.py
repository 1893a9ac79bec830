"""/workflows/…/forecast: what a workflow would have done in the last days, had it been enabled."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from loops.errors import RequestError
from loops.event import JsonValue
from server.api.call import Call, answer
from server.forecast_words import warnings
from triggers.forecasting import MOST_DAYS, Forecast

USUAL_DAYS = 7


async def stored(call: Call) -> web.Response:
    """Hold a workflow against the deliveries of the last `days` (7) as if it had been enabled: verdicts by stage and by
    hour, tasks, cost, and the quotas that it would have reached (docs/guides/brakes.md#forecast). Starts nothing."""
    workflow, body = call.piece("id"), await call.document("days")
    return answer(_item(await call.services.forecasts.stored(call.project, workflow, _days(body))))


async def document(call: Call) -> web.Response:
    """The same for a workflow that is not stored: the one in `document`, with its `schedules` where it has some."""
    body = await call.document("document", "days")
    if "document" not in body:
        raise RequestError("document is missing", hint="the workflow, as an object", path="document")
    return answer(_item(await call.services.forecasts.document(call.project, body["document"], _days(body))))


def _days(body: Mapping[str, JsonValue]) -> float:
    days = body.get("days", USUAL_DAYS)
    if isinstance(days, bool) or not isinstance(days, int | float):
        raise RequestError("days is no number", hint=f"up to {MOST_DAYS}", path="days")
    return days


def _item(found: Forecast) -> dict[str, Any]:
    looked, tally, basis = found.looked, found.tally, found.basis
    return {
        "workflow": found.workflow_id or None,
        "name": found.name,
        "since": found.since.isoformat(),
        "until": found.until.isoformat(),
        "deliveries": looked.deliveries,
        "ignored": looked.ignored,
        "unreadable": looked.unreadable,
        "events": looked.events,
        "counts": dict(tally.counts),
        "hours": [{"at": at.isoformat(), "counts": dict(tally.hours[at])} for at in sorted(tally.hours)],
        "runs": {"started": tally.counts["start"], "waited": tally.waited, "replaced": tally.replaced},
        "held": tally.pending,
        "tasks": {"created": tally.created, "refused": dict(tally.refused)},
        "cost": {
            "total": None if basis.cost is None else round(basis.cost * tally.created, 4),
            "each": basis.cost,
            "based_on": basis.cost_words,
        },
        "run_seconds": {"each": basis.lasts.total_seconds(), "based_on": basis.lasts_words},
        "quotas": [_quota(found, name) for name in ("workflow", "project", "parallel")] if found.steps else [],
        "warnings": warnings(found),
        "notes": list(found.notes),
    }


def _quota(found: Forecast, name: str) -> dict[str, Any]:
    peak, first = found.tally.peaks[name], found.tally.first_refused.get(name)
    return {
        "quota": name,
        "limit": getattr(found.limits, name),
        "most": peak.most,
        "at": None if peak.at is None else peak.at.isoformat(),
        "first_refused_at": None if first is None else first.isoformat(),
    }
