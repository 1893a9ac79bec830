"""When something is shown in a thread, and the words for it. Pure."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from loops.store.threads import LISTENING, WORKING, ThreadRow

FIRST = timedelta(seconds=3)
"""A turn that is over before shows no progress."""
_PATIENCE = timedelta(minutes=10)
"""How long a sign is tried that Slack does not take."""
_RETRY = timedelta(seconds=15)
# The longer it takes, the less a second tells.
_PACES = (
    (timedelta(minutes=1), timedelta(seconds=3)),
    (timedelta(minutes=5), timedelta(seconds=10)),
)
_SLOWEST = timedelta(seconds=30)
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,60}")
_MOST_NAMES = 3


def pace(age: timedelta) -> timedelta:
    """How long one wording stays in a turn of this age."""
    return next((wait for until, wait in _PACES if age < until), _SLOWEST)


def due_for_progress(row: ThreadRow, now: datetime) -> bool:
    """Whether the turn has taken long enough to tell of."""
    return row.status == WORKING and now - row.turn_at >= FIRST


def next_look(row: ThreadRow, now: datetime, *, unfinished: bool) -> datetime | None:
    """When to look after the thread again; None for never. `unfinished`: Slack did not take a sign that is due."""
    if row.status == WORKING:
        first = row.turn_at + FIRST
        return first if now < first else now + pace(now - row.turn_at)
    if unfinished and now - row.updated_at < _PATIENCE:
        return now + _RETRY
    return row.listens_until if row.status == LISTENING else None


def progress_words(activity: Mapping[str, Any] | None, page: str, *, begun: bool) -> str:
    """What is told of a turn, as Slack's mrkdwn. The names of tools are the model's own words: what could be more than
    a name is left out."""
    link = f"  <{page}|The run>" if page else ""
    if not begun:
        return f"It waits for its turn among the tasks.{link}"
    told = activity or {}
    number = told.get("round")
    where = f", round {number}" if isinstance(number, int) else ""
    return f"Working on it{where}{_doing(told)}.{link}"


def _doing(activity: Mapping[str, Any]) -> str:
    phase, calls = activity.get("phase"), activity.get("calls")
    if phase == "retrying":
        return ": the model is asked again"
    names = [one for one in calls if isinstance(one, str) and _NAME.fullmatch(one)] if isinstance(calls, list) else []
    if phase != "calling" or not names:
        return ""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ": " + ", ".join(f"`{name}`" for name in names[:_MOST_NAMES]) + more
