"""Tells people that a loop fails, or works again: decided in the transaction that ends the run, sent by the outbox.

A message about a failure is no run, so that there are never messages about those.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loops.errors import StepFailed
from loops.ports import Clock, Messages, Origin, Reader, Writer
from loops.runs.alert_words import PAGE, AlertTarget, loop_target, read_target, words
from loops.runs.alerts import Failing, Recovered, hour_over, run_completed, run_failed
from loops.store import alerts as store
from loops.store import run_queries, tasks, workflows

if TYPE_CHECKING:
    import sqlalchemy as sa

log = logging.getLogger("loops.alerts")


@dataclass(frozen=True, slots=True)
class RunEnd:
    """A run that is over. `told` is whom the run itself has sent what there was of its result; `refused` whom it could
    not send a message to, which is why it failed; `is_skipped` where a step did not do its work, as for a full quota.
    """

    project_id: str
    workflow_id: str
    run_id: str
    status: str
    reason: str
    told: AlertTarget | None = None
    refused: AlertTarget | None = None
    is_told: bool = False
    is_skipped: bool = False


class Alerting:
    """Stores notices as messages. `link` gives the address of a run's page."""

    def __init__(self, messages: Messages, clock: Clock, link: Callable[[str], str] = "/runs/{}".format) -> None:
        self._messages = messages
        self._clock = clock
        self._link = link

    def run_over(self, connection: "sa.Connection", end: RunEnd) -> None:
        """Tell what is to be told of a run that ends in this transaction. Whatever goes wrong here must not undo that
        it is over."""
        if end.status not in {"completed", "failed"}:
            return
        try:
            with connection.begin_nested():
                (self._completed if end.status == "completed" else self._failed)(connection, end)
        except Exception:
            log.exception("whether to tell of a run could not be decided", extra={"run_id": end.run_id})

    def given_up(self, connection: "sa.Connection", run_id: str, reason: str) -> None:
        """The same of a run that was ended because its workers died."""
        project_id, workflow_id = run_queries.place(connection, run_id)
        self.run_over(connection, RunEnd(project_id, workflow_id, run_id, "failed", reason))

    def _completed(self, connection: "sa.Connection", end: RunEnd) -> None:
        seen = store.known(connection, end.workflow_id)
        if seen is None or not (seen.is_failing or seen.is_told):
            return  # nearly always: nothing is held, and nothing stored
        if end.is_skipped and not tasks.of_run(connection, end.run_id):
            return  # nothing was tried, so nothing is known to work
        after, notice = run_completed(store.held(connection, end.project_id, end.workflow_id))
        store.put(connection, end.workflow_id, after)
        if notice is not None:
            self._tell(connection, end, self._target(connection, end), notice)

    def _failed(self, connection: "sa.Connection", end: RunEnd) -> None:
        target, now = self._target(connection, end), self._clock.now()
        is_told = end.is_told and end.told in (None, target)
        before = store.held(connection, end.project_id, end.workflow_id)
        after, notice = run_failed(before, end.run_id, end.reason, now, is_told=is_told)
        store.put(connection, end.workflow_id, after)
        if notice is not None:
            # Over the way on which a message was refused, another would be too.
            self._tell(connection, end, PAGE if target == end.refused else target, notice)

    def _target(self, connection: "sa.Connection", end: RunEnd) -> AlertTarget:
        chosen = read_target(store.target(connection, end.project_id))
        if chosen is not None:
            return chosen
        return loop_target(workflows.get(connection, end.project_id, end.workflow_id).definition) or PAGE

    def _tell(self, connection: "sa.Connection", end: RunEnd, target: AlertTarget, notice: Failing | Recovered) -> None:
        row = workflows.get(connection, end.project_id, end.workflow_id)
        said = words(row.name, notice, self._link(end.run_id))
        key = "recovered" if isinstance(notice, Recovered) else "alert"
        origin = Origin(end.project_id, end.run_id, None, f"{end.run_id}:{key}")
        try:
            self._messages.put(connection, target.kind, target.inputs(said), origin)
        except StepFailed:  # a channel or address that cannot be one
            self._messages.put(connection, PAGE.kind, PAGE.inputs(said), origin)

    def tell_due(self, connection: "sa.Connection") -> int:
        """Tell what has waited for its hour; of how many loops."""
        found = store.due(connection, self._clock.now())
        for project_id, workflow_id in found:
            try:
                with connection.begin_nested():
                    self._hour_over(connection, project_id, workflow_id)
            except Exception:
                log.exception("what waited to be told could not be", extra={"workflow_id": workflow_id})
                store.put_off(connection, workflow_id)
        return len(found)

    def _hour_over(self, connection: "sa.Connection", project_id: str, workflow_id: str) -> None:
        after, notice = hour_over(store.held(connection, project_id, workflow_id), self._clock.now())
        store.put(connection, workflow_id, after)
        if notice is not None:
            end = RunEnd(project_id, workflow_id, notice.run_id, "failed", notice.reason)
            self._tell(connection, end, self._target(connection, end), notice)


async def tell_what_is_due(alerting: Alerting, writer: Writer, reader: Reader, clock: Clock) -> int:
    """Look whether something is to be told, and tell it; of how many loops."""
    now = clock.now()
    if not await reader.read(lambda connection: store.any_due(connection, now)):
        return 0
    return await writer.run(alerting.tell_due)
