"""A message in the thread of a live task is that task's: it is handed over, and starts no run of the same loop.

What its sender may not say to the task is decided like any other message."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from loops.event import Event
from loops.store import deliveries
from loops.store import tasks as task_store
from loops.store import threads as store
from loops.store.deliveries import Due
from loops.store.threads import ThreadRow
from loops.tasks.thread.context import SLACK_EVENT, context_of, is_external, is_spoken
from loops.tasks.thread.live import Said, TaskThreads
from loops.tasks.thread.said import said_of
from triggers.audience import Heard
from triggers.matcher import Listener, Matches
from triggers.slack.speakers import would_start
from triggers.starting import event_of
from triggers.verdict import Verdict

HANDED = "thread"
"""The stage of a verdict on a message in the thread of a live task."""
_HANDED_TO = "handed to the live task of run"


@dataclass(frozen=True, slots=True)
class Handing:
    """Hands messages over, in the transaction that decides their delivery."""

    threads: TaskThreads | None

    def hand(
        self,
        connection: sa.Connection,
        due: Due,
        heard: Heard,
        listener: Callable[[str], Listener | None],
        now: datetime,
    ) -> tuple[list[Verdict], Matches]:
        """The verdict on the loop whose live task has the thread, none where none has it; and who else wants the
        message. `listener` gives that of a loop.

        Of the filters only what they ask of the sender holds: the rest says what starts a task, not what is said to it.
        A message that is not handed over is decided as always, and starts that loop where it passes all its filters.
        """
        event, matches = heard.event, heard.matches
        verdict = self._verdict(connection, due, event, listener, now)
        if verdict is None:
            return [], matches
        if not is_handed(verdict) and any(one.key == verdict.workflow for one in matches.passed):
            return [], matches
        passed, *nearly = (
            tuple(one for one in listeners if one.key != verdict.workflow)
            for listeners in (matches.passed, *matches.nearly)
        )
        return [verdict], matches._replace(passed=passed, nearly=tuple(nearly))

    def _verdict(
        self,
        connection: sa.Connection,
        due: Due,
        event: Event,
        listener: Callable[[str], Listener | None],
        now: datetime,
    ) -> Verdict | None:
        """What is said of the loop whose live task has the thread; None where none has it.

        Only what a person has just said, as Slack proved: bots, edits and our own answers start no turn. An answer in
        a thread that is told twice, as a message and as a mention, is one.
        """
        threads = self.threads
        if threads is None or event.name != SLACK_EVENT or not event.verified or not is_spoken(event.properties):
            return None
        context = context_of(event.properties)
        if context is None or context.thread_ts == context.message_ts:
            return None
        external = is_external(event.properties)
        said = Said(due.project_id, context, said_of(event.properties), due.id, external)
        thread = threads.owner(connection, said)
        if thread is None:
            return None
        had = threads.had(connection, thread, context.message_ts)
        if had is None:
            refused = _refused(connection, thread, event, listener(thread.workflow_id))
            if refused is not None:
                return refused
            if self._started_by(connection, thread, event, due, now):
                return None
            threads.hear(connection, thread, said)
        again = f", as it was before, by delivery {had}" if had not in (None, due.id) else ""
        reason = f"{_HANDED_TO} {thread.run_id}{again}"
        version = store.version_of_run(connection, thread.run_id)
        return Verdict(thread.workflow_id, version, HANDED, passed=False, reason=reason)

    def _started_by(self, connection: sa.Connection, thread: ThreadRow, event: Event, due: Due, now: datetime) -> bool:
        """Whether the loop had the message before its thread was the task's; from here on it has it."""
        if event.claim is None:
            return False
        return deliveries.claim(connection, thread.workflow_id, event.claim, due.id, now) is not None


def is_handed(verdict: Verdict) -> bool:
    """Whether a live task has the message."""
    return verdict.stage == HANDED and verdict.reason.startswith(_HANDED_TO)


def _refused(connection: sa.Connection, thread: ThreadRow, event: Event, listener: Listener | None) -> Verdict | None:
    """Why the sender of a message may not speak to the task of the thread; None where they may: who started it, whom
    the trigger would have heard in their place, and everybody where the step says so."""
    user = str(event.properties.get("user"))
    if user == thread.user or task_store.request_of(connection, thread.task_id).get("hears_everyone") is True:
        return None
    body = task_store.event_of(connection, thread.run_id)
    if listener is None or body is None:
        lacks = "its loop is not enabled" if listener is None else "the message that started it is not kept any more"
        version = store.version_of_run(connection, thread.run_id) if listener is None else listener.version
        return _not_handed(thread, version, f"{user} did not start it, and {lacks}")
    compared = would_start(listener.filter, event, event_of(body))
    failed = next((one for one in compared if not one.passed), None)
    if failed is None:
        return None
    reason = (
        f"{user} did not start it, and could not have: {failed.words()}; allow_everyone_in_thread in its step lets "
        "everybody of the workspace speak there"
    )
    return replace(_not_handed(thread, listener.version, reason), compared=compared)


def _not_handed(thread: ThreadRow, version: int, why: str) -> Verdict:
    reason = f"not handed to the live task of run {thread.run_id}: {why}"
    return Verdict(thread.workflow_id, version, HANDED, passed=False, reason=reason)


NOBODY_HEARS = Handing(None)
"""Where no task has a thread."""
