"""What a person says of an output that waits for one: that it happened, or that it is to be sent.

    uncertain            -- "it happened, there" --> written
    uncertain, refused,
    staged               -- "send it"            --> waiting --> as every other that is written

Everything here is part of the caller's transaction. Who answers first is recorded; another answer is a conflict, the
same one again from the same person changes nothing. Nobody answers while it is being sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from loops.errors import Conflict, NotFound, RequestError
from loops.store import output_answers as store
from loops.store import tasks as task_store
from loops.store import threads as thread_store
from loops.store.columns import database_now
from loops.store.outputs import OutputRow
from loops.tasks.outputs.writing import MASKED

if TYPE_CHECKING:
    from sqlalchemy import Connection

SENT = frozenset({"uncertain", "refused", "staged"})
"""How an output may stand that a person has sent."""
_LONGEST_URL = 2_000
_LOOK = "see how it stands now, on the page of its run"

Answered = Literal["happened", "again"]


@dataclass(frozen=True, slots=True)
class Person:
    """Who answers, for which project: the token and its name."""

    project_id: str
    token_id: str
    name: str


def happened(connection: "Connection", who: Person, this: tuple[str, int], url: str, now: datetime) -> OutputRow:
    """It was written, at `url`, although nobody knew. Raises NotFound, RequestError or Conflict."""
    place = _address(url)
    row = _held(connection, who, this)
    if _same(row, who, "happened") and row.url == place:
        return row
    if row.status != "uncertain":
        raise Conflict(f"the {_kind(row)} is {row.status}{_by(row)}: there is no doubt of it", hint=_LOOK)
    answer = _answer(row, who, "happened", now)
    follows = {"status": "written", "reason": "", "url": place, "due_at": None}
    return store.answered(connection, row, answer, follows, now)


def again(
    connection: "Connection", who: Person, this: tuple[str, int], now: datetime, *, staged: bool = False
) -> OutputRow:
    """Have it sent, now. `staged`: this service writes nothing. Raises NotFound or Conflict."""
    row = _held(connection, who, this)
    if row.status == "waiting" and _same(row, who, "again"):
        return row
    if row.status not in SENT:
        raise Conflict(f"the {_kind(row)} is {row.status}{_by(row)}", hint=_LOOK)
    if staged:
        hint = "unset it, and start the service again"
        raise Conflict("this service writes nothing: LOOPS_STAGED is yes", hint=hint)
    if row.kind == "pull_request":
        _check_patch(row)
    answer = _answer(row, who, "again", now)
    follows = {"status": "waiting", "due_at": database_now(connection)}
    return store.answered(connection, row, answer, follows, now)


def sendable(row: OutputRow) -> bool:
    """Whether a person may have it sent as it stands."""
    whole = row.kind != "pull_request" or (row.patch is not None and not (row.base or {}).get(MASKED))
    return row.status in SENT and whole


def was(row: OutputRow) -> str:
    """How it stood when it was answered last."""
    return str(row.answers[-1]["was"]) if row.answers else ""


def _held(connection: "Connection", who: Person, this: tuple[str, int]) -> OutputRow:
    """The output, held, whose turn is over and which nobody sends now. Raises NotFound or Conflict."""
    task = task_store.get(connection, this[0], who.project_id)
    row = store.held(connection, this)
    if row is None:
        raise NotFound(f"task {this[0]} has no output {this[1]}")
    thread = thread_store.of_task(connection, task.id)
    works = thread is not None and thread.status == thread_store.WORKING and row.turn >= thread.turn
    if works or not task_store.get(connection, task.id).over:
        raise Conflict("the task is still at work, and deals with it by itself", hint="wait until it has ended")
    _check_rests(connection, who, row)
    return row


def _check_rests(connection: "Connection", who: Person, row: OutputRow) -> None:
    """Raises Conflict where somebody sends it now, but for who asked for that and was told so."""
    until = store.sent_until(connection, (row.task_id, row.number))
    if until is None or (row.status == "waiting" and _same(row, who, "again")):
        return
    hint = f"ask again after {until.isoformat(timespec='seconds')}: by then it has come to something, or is tried again"
    raise Conflict(f"the {_kind(row)} is being sent{_by(row)}", hint=hint)


def _check_patch(row: OutputRow) -> None:
    if row.patch is None:
        raise Conflict("no patch is kept of it: nothing was changed", hint="run the loop again")
    if (row.base or {}).get(MASKED):
        told = "the change touches a secret of this service, which is blotted out of the patch that is kept"
        raise Conflict(told, hint="make the change by hand, or run the loop again")


def _answer(row: OutputRow, who: Person, did: Answered, now: datetime) -> Mapping[str, Any]:
    return {
        "did": did,
        "was": row.status,
        "reason": row.reason,
        "attempts": row.attempts,
        "by": who.name,
        "token": who.token_id,
        "at": now.isoformat(),
    }


def _same(row: OutputRow, who: Person, did: Answered) -> bool:
    last = row.answers[-1] if row.answers else {}
    return last.get("did") == did and last.get("token") == who.token_id


def _by(row: OutputRow) -> str:
    if not row.answers:
        return ""
    last = row.answers[-1]
    return f", as {last['by']} answered at {last['at']}"


def _kind(row: OutputRow) -> str:
    return row.kind.replace("_", " ")


def _address(url: str) -> str:
    hint = "the address of what was written, as https://github.com/acme/widgets/pull/7"
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        is_one = False
    if not is_one or not url.isprintable() or " " in url or len(url) > _LONGEST_URL:
        raise RequestError("url is no address", hint=hint, path="url")
    return url
