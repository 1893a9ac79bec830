"""Where a stored message stands, as a value, and the functions that move it.

    pending --claim--> sending --Sent--> sent            (or sending again while parts are left)
       ^                  |---Refused--> refused         a person may ask for another try
       |                  |---Retry----> retry --claim--> sending
       |                  |---Uncertain, or its process died--> uncertain
       |                                                     |--found--> as Sent
       '--a person asks-- refused, uncertain                 |--not there, a minute after--> retry
                                                             '--cannot be known--> uncertain until a person asks
    shown: the project has no connection of the kind; the message stands on the page alone
    withdrawn: what waited for it was cancelled before anybody began, or began again, to send it

A message leaves `uncertain` only by what the service itself says, or by a person: it is never sent again blindly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from loops.errors import Conflict
from loops.storable import storable_text
from notify.message import Absent, Outcome, Refused, Retry, Sent, Settlement, Uncertain, Unconnected, Unsettled

Status = Literal["pending", "sending", "sent", "refused", "retry", "uncertain", "shown", "withdrawn"]
DUE_TO_SEND: frozenset[str] = frozenset({"pending", "retry"})
OVER: frozenset[str] = frozenset({"sent", "refused", "shown", "withdrawn"})
ASKED_AGAIN: frozenset[str] = frozenset({"refused", "uncertain", "shown"})
"""What a person may ask for once more."""
NO_CONNECTION = "no_connection"
"""The code of a message that names a connection over which it cannot leave, where others are there."""

MOST_ATTEMPTS = 20
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=10)
# How long one attempt at one part may take, and after how long without a word whoever made it is taken for dead.
ATTEMPT = timedelta(seconds=40)
LEASE = timedelta(seconds=60)
# What was not there this long after the attempt began has not been sent: no request lives longer.
SURELY_ABSENT = timedelta(seconds=60)
_SETTLE_PAUSES = (timedelta(seconds=2), timedelta(seconds=15), SURELY_ABSENT)
_SETTLE_AGAIN = timedelta(minutes=5)
_SETTLE_AT_MOST = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a message stands. `attempts` counts claims; `refs` are the parts that are there, of `parts` in all.

    `began_at` is when the attempt that runs, or is uncertain, began; `due_at` when to look again, None for never.
    """

    status: Status
    due_at: datetime | None
    attempts: int = 0
    parts: int = 0
    refs: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    code: str = ""
    reason: str = ""
    mend: str = ""
    began_at: datetime | None = None


def pending(now: datetime) -> Standing:
    """A message that is to be sent."""
    return Standing("pending", now)


def shown(standing: Standing | None, reason: str, mend: str = "") -> Standing:
    """A message that nobody gets but the page's reader."""
    return replace(standing or Standing("shown", None), status="shown", due_at=None, reason=reason, mend=mend, code="")


def unsent(standing: Standing | None, unconnected: Unconnected) -> Standing:
    """A message that has no way to leave: for the page's reader alone, or refused where another connection would do."""
    if unconnected.alone:
        return shown(standing, unconnected.reason, unconnected.mend)
    refused = Refused(NO_CONNECTION, unconnected.reason, unconnected.mend)
    return _refused(standing or Standing("refused", None), refused)


def rests(status: str, due_at: datetime | None) -> bool:
    """Whether nothing more happens to a message by itself."""
    return status in OVER or (status == "uncertain" and due_at is None)


def withdrawn(standing: Standing) -> Standing:
    """It is not to be sent any more; parts that are there stay. Raises Conflict where somebody sends it, or did."""
    if standing.status not in DUE_TO_SEND:
        raise Conflict(f"a message that is {standing.status} cannot be withdrawn")
    sent = f"; {len(standing.refs)} of {standing.parts} parts were sent before" if standing.refs else ""
    reason = f"its run was cancelled{sent}"
    return replace(standing, status="withdrawn", due_at=None, code="", reason=reason, mend="", began_at=None)


def given_up(standing: Standing) -> Standing:
    """Whoever wanted it waits no longer. Raises Conflict where somebody sends it, or did."""
    if standing.status not in DUE_TO_SEND:
        raise Conflict(f"a message that is {standing.status} cannot be given up")
    reason = f"given up, as its step waits no longer: {standing.reason or 'it was not sent yet'}"
    return _refused(standing, Refused("late", reason, "send it again once that is over"))


def claimed(standing: Standing, now: datetime) -> Standing:
    """Somebody begins to send it. Raises Conflict when it is not to be sent."""
    if standing.status not in DUE_TO_SEND:
        raise Conflict(f"a message that is {standing.status} is not to be sent")
    return replace(standing, status="sending", attempts=standing.attempts + 1, began_at=now, due_at=now + LEASE)


def came(standing: Standing, outcome: Outcome, now: datetime) -> Standing:
    """What the attempt at the next part came to. Also of one that was taken for dead meanwhile."""
    if standing.status not in {"sending", "uncertain"}:
        raise Conflict(f"a message that is {standing.status} has no attempt under way")
    match outcome:
        case Sent():
            return _one_more(standing, outcome, now)
        case Refused():
            return _refused(standing, outcome)
        case Retry():
            return _put_off(standing, outcome, now)
        case Uncertain(reason):
            return _uncertain(standing, reason, now)


def interrupted(standing: Standing, now: datetime) -> Standing:
    """Whoever was sending it has died, between sending and storing perhaps."""
    if standing.status != "sending":
        raise Conflict(f"a message that is {standing.status} is being sent by nobody")
    return _uncertain(standing, "the process that was sending it ended before it knew what came of it", now)


def settled(standing: Standing, found: Settlement, now: datetime) -> Standing:
    """What looking for an uncertain message came to."""
    if standing.status != "uncertain" or standing.began_at is None:
        raise Conflict(f"a message that is {standing.status} has nothing to settle")
    age = now - standing.began_at
    match found:
        case Sent():
            return _one_more(standing, found, now)
        case Absent() if age >= SURELY_ABSENT:
            reason = "it was looked for and is not there: it is sent again"
            return replace(standing, status="retry", due_at=now, reason=reason, began_at=None)
        case Absent():
            return replace(standing, due_at=_look_at(standing.began_at, now))
        case Unsettled(reason, again):
            asked_again = again and age < _SETTLE_AT_MOST
            return replace(standing, due_at=now + _SETTLE_AGAIN if asked_again else None, mend=_look_yourself(reason))


def asked_again(standing: Standing, now: datetime) -> Standing:
    """A person wants it sent, and answers for it if it was. Raises Conflict where there is nothing to send again."""
    if standing.status not in ASKED_AGAIN:
        raise Conflict(f"the message is {standing.status}: there is nothing to send again")
    return replace(standing, status="pending", due_at=now, attempts=0, code="", reason="", mend="", began_at=None)


def next_look(standing: Standing, now: datetime) -> Standing:
    """An uncertain message that somebody looks for now: others leave it alone meanwhile."""
    return replace(standing, due_at=now + LEASE)


def pause(attempts: int) -> timedelta:
    """How long to wait after so many attempts."""
    doubled: int = 2 ** min(max(attempts - 1, 0), 20)
    return min(FIRST_PAUSE * doubled, LONGEST_PAUSE)


def _one_more(standing: Standing, sent: Sent, now: datetime) -> Standing:
    refs, missed = (*standing.refs, sent.ref), (*standing.missed, *sent.missed)
    here = replace(standing, refs=refs, missed=missed, code="", reason="", mend="")
    if len(refs) < standing.parts:
        # Whoever sends goes on; when a dead attempt was found to have arrived, anybody does.
        left = f"{len(refs)} of {standing.parts} parts are there"
        if standing.status == "uncertain":
            return replace(here, status="retry", due_at=now, reason=left, began_at=None)
        return replace(here, reason=left, began_at=now, due_at=now + LEASE)
    told = "not delivered to " + "; ".join(missed) if missed else ""
    return replace(here, status="sent", due_at=None, reason=told)


def _refused(standing: Standing, outcome: Refused) -> Standing:
    reason = _of_part(standing, outcome.reason)
    return replace(standing, status="refused", due_at=None, code=outcome.code, reason=reason, mend=outcome.mend)


def _put_off(standing: Standing, outcome: Retry, now: datetime) -> Standing:
    reason = _of_part(standing, outcome.reason)
    if standing.attempts >= MOST_ATTEMPTS:
        given_up = Refused("given_up", f"given up after {standing.attempts} attempts: {outcome.reason}")
        return _refused(standing, given_up)
    wait = max(pause(standing.attempts), timedelta(seconds=outcome.after or 0))
    return replace(standing, status="retry", due_at=now + wait, reason=reason, code="", mend="", began_at=None)


def _uncertain(standing: Standing, reason: str, now: datetime) -> Standing:
    began = standing.began_at or now
    return replace(
        standing,
        status="uncertain",
        due_at=_look_at(began, now),
        code="uncertain",
        reason=_of_part(standing, reason),
        mend="",
        began_at=began,
    )


def _look_at(began: datetime, now: datetime) -> datetime:
    """When to look for it next: soon, since most is there at once, and when it is surely there or not."""
    return next((began + wait for wait in _SETTLE_PAUSES if began + wait > now), now)


def _of_part(standing: Standing, reason: str) -> str:
    return reason if standing.parts <= 1 else f"part {len(standing.refs) + 1} of {standing.parts}: {reason}"


def _look_yourself(reason: str) -> str:
    return f"{reason}; look whether it arrived, and send it again if not"


def as_columns(standing: Standing) -> Mapping[str, object]:
    """The standing as a row keeps it. A server may answer in bytes that are no text; what is stored always is."""
    return {
        "status": standing.status,
        "due_at": standing.due_at,
        "attempts": standing.attempts,
        "parts": standing.parts,
        "refs": [storable_text(ref) for ref in standing.refs],
        "missed": [storable_text(line) for line in standing.missed],
        "code": storable_text(standing.code),
        "reason": storable_text(standing.reason),
        "mend": storable_text(standing.mend),
        "began_at": standing.began_at,
    }
