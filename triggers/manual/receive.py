"""Start a run by hand: once for each idempotency key, in one transaction with the answer."""

import dataclasses
import hashlib
import json
import logging
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.errors import Conflict
from loops.event import JsonValue
from loops.ports import Clock, Engine, Writer
from loops.projects import project_filters
from loops.store import deliveries, run_keys
from loops.store import workflows as workflows_store
from loops.store.held_rows import once_free
from loops.store.workflows import WorkflowRow
from triggers.manual.event import read_variables, to_event, trigger_started_by_hand
from triggers.overlap_stage import Cancel, Starting, cancel_alone
from triggers.starting import Begin, Start, admission, start_run, undelivered
from triggers.verdict import Verdict

log = logging.getLogger("loops.manual")


class ByHand:
    """Of the brakes overlap alone holds for a start by hand; the quotas of its tasks do too."""

    def __init__(
        self, writer: Writer, engine: Engine, clock: Clock, begin: Begin, cancel: Cancel = cancel_alone
    ) -> None:
        """`cancel` ends runs that others replace."""
        self._writer = writer
        self._starting = Starting(engine, cancel)
        self._clock = clock
        self._begin = begin

    async def start(
        self, project_id: str, workflow_id: str, variables: Mapping[str, JsonValue], by: str, *, key: str = ""
    ) -> Mapping[str, Any]:
        """Start a run; `by` is who asks. With a key that came in the last 24 hours the first answer is given again.

        Raises NotFound, RequestError for variables that do not fit, and Conflict for a workflow that is not active or
        is not started by hand, whose overlap policy starts nothing now, or a key that came with other variables.
        """
        asked = hashlib.sha256(json.dumps(dict(variables), sort_keys=True).encode()).hexdigest()
        now = self._clock.now()

        def start(connection: sa.Connection) -> Mapping[str, Any]:
            row = workflows_store.get(connection, project_id, workflow_id, lock=True)
            before = run_keys.known(connection, workflow_id, key, now) if key else None
            if before is not None:
                return _again(before, asked, key)
            answer = self._start(connection, row, variables, by, now)
            if key:
                run_keys.put(connection, workflow_id, key, asked, answer, now)
            return answer

        answer = await once_free(self._writer, start)
        log.info("run started by hand", extra={"workflow_id": workflow_id, "run_id": answer["run"]})
        return answer

    def _start(
        self, connection: sa.Connection, row: WorkflowRow, variables: Mapping[str, JsonValue], by: str, now: datetime
    ) -> Mapping[str, Any]:
        trigger = trigger_started_by_hand(row.definition, row.name)
        if row.status != "active":
            hint = "create it anew to use it again" if row.status == "archived" else "loops workflows enable WORKFLOW"
            raise Conflict(f"workflow {row.name!r} is not active: it is {_STATUS[row.status]}", hint=hint)
        values = read_variables(row.definition, variables)
        event = to_event(trigger, values, by, str(uuid.uuid4()), now)
        project = project_filters(connection, row.project_id)
        state = self._begin(row.id, row.version, project, lambda: row.definition)
        state = dataclasses.replace(state, variables={**state.variables, **values})
        admitted = admission(connection, self._starting, row, event, now)
        if not admitted.passes:
            hint = "wait until that is over, or cancel it: loops cancel RUN"
            raise Conflict(f"workflow {row.name!r} starts nothing now: {admitted.reason}", hint=hint)
        reason = f"started by hand, by {by}{f'; {admitted.reason}' if admitted.reason else ''}"
        verdict = Verdict(row.id, row.version, "start", passed=True, reason=reason)
        deliveries.put_event(connection, undelivered(row.project_id, event, verdict), now)
        run = start_run(connection, self._starting, Start(row, event, state), now, admitted)
        return {"status": "queued", "run": run, "invocation_id": run, "workflow": row.id, "event": event.name}


_STATUS = {"draft": "a draft", "archived": "archived"}


def _again(before: tuple[str, Mapping[str, Any]], asked: str, key: str) -> Mapping[str, Any]:
    if before[0] != asked:
        raise Conflict(
            f"the Idempotency-Key {key!r} came before with other variables", hint="use a key of its own for each start"
        )
    return before[1]
