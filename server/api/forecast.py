"""/workflows/…/forecast: what a workflow would have done in the last days, had it been enabled."""

from datetime import datetime
from typing import Any

from aiohttp import web

from loops.errors import NotFound, RequestError
from server.api.call import Call, answer
from server.forecast_words import USUAL_DAYS, wanted_days, warnings
from triggers.forecast_quotas import TasksOfHour
from triggers.forecasting import Forecast


async def stored(call: Call) -> web.Response:
    """Hold a workflow against the deliveries of the last `days` (a whole number, 1 to 90; 7) as if it had been enabled:
    verdicts by stage and by hour, examples of each, tasks, cost, and the quotas that it would have reached
    (docs/guides/brakes.md#forecast). Starts nothing. One of a project is worked out at a time and two in a process: who
    waits longer than 10 s is refused (503), and what takes longer than 45 s is stopped (400)."""
    workflow, body = call.piece("id"), await call.document("days")
    return answer(
        _item(await call.services.forecasts.stored(call.project, workflow, wanted_days(body.get("days", USUAL_DAYS))))
    )


async def document(call: Call) -> web.Response:
    """The same for a workflow that is not stored: the one in `document`, with its `schedules` where it has some; or for
    the stored one with this `id`."""
    body = await call.document("document", "id", "days")
    days, forecasts = wanted_days(body.get("days", USUAL_DAYS)), call.services.forecasts
    if ("document" in body) == ("id" in body):
        fault = "both are given" if "id" in body else "is missing"
        raise RequestError(
            f"document or id: {fault}", hint="the workflow, as an object; or the id of a stored one", path="document"
        )
    if "document" in body:
        return answer(_item(await forecasts.document(call.project, body["document"], days)))
    workflow = body["id"]
    if not isinstance(workflow, str):
        raise NotFound("there is no such workflow")
    return answer(_item(await forecasts.stored(call.project, workflow, days)))


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
        "hours": [_hour(found, at) for at in sorted(tally.hours.keys() | tally.tasks.keys())],
        "examples": {
            stage: [{"at": one.at.isoformat(), "delivery": one.delivery} for one in reversed(those)]
            for stage, those in tally.examples.items()
        },
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


def _hour(found: Forecast, at: datetime) -> dict[str, Any]:
    tasks = found.tally.tasks.get(at, TasksOfHour())
    return {
        "at": at.isoformat(),
        "counts": dict(found.tally.hours.get(at, {})),
        "tasks": {"created": tasks.created, "refused": tasks.refused},
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
