"""A message in the thread of a live task is that task's: it is handed over, and starts no run of the same loop."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from loops.event import Event
from loops.store import deliveries
from loops.store import threads as store
from loops.store.deliveries import Due
from loops.store.threads import ThreadRow
from loops.tasks.thread.context import SLACK_EVENT, context_of, is_external, is_spoken
from loops.tasks.thread.live import Said, TaskThreads
from loops.tasks.thread.said import said_of
from triggers.matcher import Matches
from triggers.verdict import Verdict

HANDED = "thread"
"""The stage of a verdict on a message that a live task has."""


@dataclass(frozen=True, slots=True)
class Handing:
    """Hands messages over, in the transaction that decides their delivery."""

    threads: TaskThreads | None

    def hand(
        self, connection: sa.Connection, due: Due, event: Event, matches: Matches, now: datetime
    ) -> tuple[list[Verdict], Matches]:
        """The verdict on the loop whose live task has the message, none where none has it; and who else wants it.
        Decided before all filters: those say what starts a task, not what is said to it."""
        verdict = self.verdict(connection, due, event, now)
        if verdict is None:
            return [], matches
        passed, *nearly = (
            tuple(one for one in listeners if one.key != verdict.workflow)
            for listeners in (matches.passed, *matches.nearly)
        )
        return [verdict], matches._replace(passed=passed, nearly=tuple(nearly))

    def verdict(self, connection: sa.Connection, due: Due, event: Event, now: datetime) -> Verdict | None:
        """What is said of the loop whose live task has the message; None where none has it.

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
            if self._started_by(connection, thread, event, due, now):
                return None
            threads.hear(connection, thread, said)
        again = f", as it was before, by delivery {had}" if had not in (None, due.id) else ""
        reason = f"handed to the live task of run {thread.run_id}{again}"
        version = store.version_of_run(connection, thread.run_id)
        return Verdict(thread.workflow_id, version, HANDED, passed=False, reason=reason)

    def _started_by(self, connection: sa.Connection, thread: ThreadRow, event: Event, due: Due, now: datetime) -> bool:
        """Whether the loop had the message before its thread was the task's; from here on it has it."""
        if event.claim is None:
            return False
        return deliveries.claim(connection, thread.workflow_id, event.claim, due.id, now) is not None


NOBODY_HEARS = Handing(None)
"""Where no task has a thread."""
