"""template-slack and template-email: a message goes into the outbox, and the step ends when it has come to rest."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from loops.event import JsonValue
from loops.ports import Messages, Origin, Posted
from loops.runs.state import Failed, Outcome, Parked, Succeeded, Wait
from loops.runs.step import Looked, Mocked, StepContext, StepOutcome, Transacted

if TYPE_CHECKING:
    from sqlalchemy import Connection

WAIT = "message"
# Longer than the outbox goes on trying, unless it is told to wait for longer.
_PATIENCE = timedelta(hours=6)
_LOOK_AGAIN = timedelta(minutes=1)


class MessageTemplate:
    """Result: {"id", "status": "sent" | "shown", "refs", "missed"}. A message that was refused, that was not sent in
    time, or of which nobody knows whether it was sent, fails the step."""

    def __init__(self, kind: str, messages: Messages) -> None:
        self._kind = kind
        self._messages = messages

    async def run(self, context: StepContext, inputs: Mapping[str, JsonValue]) -> StepOutcome:
        origin = Origin(context.project_id, context.run_id, context.action.id, context.key)

        def put(connection: "Connection") -> Outcome:
            posted = self._messages.put(connection, self._kind, inputs, origin)
            return came(posted) if posted.rests else Parked(_wait(posted.id, context))

        return Transacted(put, self._messages.wake)

    async def resume(self, context: StepContext, wait: Wait, wake: Mapping[str, JsonValue] | None) -> StepOutcome:
        message_id = str(wait.detail["message"])

        def look(connection: "Connection") -> Outcome:
            posted = self._messages.state(connection, message_id)
            if posted.rests:
                return came(posted)
            if wake is not None:
                return Parked(wait)
            # A step that is over leaves nothing behind that could still be sent, whatever becomes of its run.
            if not self._messages.give_up(connection, message_id):
                return Parked(replace(wait, deadline=context.now + _LOOK_AGAIN))
            late = came(self._messages.state(connection, message_id))
            return replace(late, code="message.late") if isinstance(late, Failed) else late

        return Transacted(look)

    async def mock(self, context: StepContext, inputs: Mapping[str, JsonValue]) -> Looked:
        """The message is made as it would be sent, and comes to rest at once."""
        origin = Origin(context.project_id, context.run_id, context.action.id, context.key)

        def look(connection: "Connection") -> Mocked:
            would = self._messages.preview(connection, self._kind, inputs, origin)
            outcome = came(would.posted)
            if would.posted.status == "shown":
                context.log(f"{would.posted.reason}: the message would be shown on the page alone")
            return Mocked(outcome, () if isinstance(outcome, Failed) else (would.told,))

        return Looked(look)


def _wait(message_id: str, context: StepContext) -> Wait:
    return Wait(WAIT, context.now + _PATIENCE, {"message": message_id})


def came(posted: Posted) -> Succeeded | Failed:
    """What a message that rests means for its step."""
    if posted.status in {"sent", "shown"}:
        refs: list[JsonValue] = list(posted.refs)
        missed: list[JsonValue] = list(posted.missed)
        return Succeeded({"id": posted.id, "status": posted.status, "refs": refs, "missed": missed})
    code = "message.uncertain" if posted.status == "uncertain" else "message.refused"
    hint = posted.mend or "look at the outbox, and send it again there if it did not arrive"
    partial: JsonValue = {"id": posted.id, "status": posted.status, "code": posted.code}
    return Failed(code, posted.reason or f"the message is {posted.status}", hint, partial)
