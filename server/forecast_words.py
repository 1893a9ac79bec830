"""A forecast in words, and the days that it is asked for, for the API and the pages."""

from loops.definition.findings import shown
from loops.errors import RequestError
from loops.event import JsonValue
from triggers.forecasting import MOST_DAYS, Forecast
from triggers.keys import instant_words

_QUOTAS = {
    "workflow": "the workflow's quota of {} tasks in 24 hours",
    "project": "the project's quota of {} tasks in 24 hours",
    "workflow_spending": "the workflow's budget of 24 hours",
    "project_spending": "the project's budget of 24 hours",
    "parallel": "the limit of {} tasks of the workflow at once",
}

USUAL_DAYS = 7


def wanted_days(asked: JsonValue) -> int:
    """The days that are asked for. Raises RequestError for what is no whole number of them, or too many."""
    if isinstance(asked, bool) or not isinstance(asked, int | float) or asked not in range(1, MOST_DAYS + 1):
        told = f"{shown(asked)!r} is not a whole number from 1 to {MOST_DAYS}"
        raise RequestError(told, hint="ask for whole days, such as 7", path="days")
    return int(asked)


def warnings(found: Forecast) -> list[str]:
    """The quotas that it would have reached, and tasks whose cost nobody knows."""
    told = []
    for name, words in _QUOTAS.items():
        limit = getattr(found.limits, name, None)
        quota = words.format(limit)
        refused = found.tally.refused[name]
        if refused:
            first = instant_words(found.tally.first_refused[name])
            told.append(f"it would have reached {quota}, first at {first}: {refused} tasks refused")
        elif limit is not None and found.tally.peaks[name].most >= limit:
            told.append(f"it would have used up {quota}: one more would have been refused")
    if found.tally.created and found.basis.cost is None:
        told.append("its cost is not known: no task whose cost is known can be compared with it")
    return told
