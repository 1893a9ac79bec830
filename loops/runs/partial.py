"""What there is of a result when the task that was to give it did not end by itself: sent once, to where the result
would have gone (D38)."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loops.event import JsonValue
from loops.ports import Messages, Origin
from loops.runs.program import Program
from loops.runs.state import Failed
from loops.runs.variables import VariablesTooLargeError, assign

if TYPE_CHECKING:
    import sqlalchemy as sa

    from loops.runs.acting import Acting

log = logging.getLogger("loops.runs")

MESSAGES: Mapping[str, str] = {"template-slack": "slack", "template-email": "email"}
"""The templates that send a message, and its kind."""


class PartialResults:
    """Puts partial results into the outbox."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def put(self, connection: "sa.Connection", acting: "Acting", failed: Failed) -> str | None:
        """Store the message that would have followed, made of the partial result and marked as such; the step that
        would have sent it, None where nothing is stored. Whatever goes wrong here must not undo that the run is over.
        """
        segment = acting.segment
        notify = _following_message(segment.program, acting.action_id)
        if notify is None:
            return None
        run_id = segment.claimed.run_id
        try:
            with connection.begin_nested():
                scope = acting.scope_with(failed.partial, _variables(acting, failed.partial))
                inputs = segment.program.render(notify, scope)
                origin = Origin(segment.claimed.project_id, run_id, notify, f"{run_id}:{notify}:incomplete")
                kind = _kind(segment.program.action(notify))
                self._messages.put(connection, kind, inputs, origin, notice=_notice(failed))
        except Exception:
            log.exception("the partial result could not be sent", extra={"run_id": run_id, "step": notify})
            return None
        return notify


def _notice(failed: Failed) -> str:
    if failed.code.startswith("task."):
        return "Incomplete: the task did not end by itself."
    return f"Incomplete: {failed.message}"


def _variables(acting: "Acting", partial: JsonValue) -> Mapping[str, JsonValue]:
    """The variables with what there is of the result; without it where that does not fit."""
    outputs = acting.segment.program.node(acting.action_id).outputs
    try:
        return assign(acting.state.variables, outputs, partial, refer_to=acting.action_id)
    except VariablesTooLargeError:
        return acting.state.variables


def _following_message(program: Program, action_id: str) -> str | None:
    """The first step on the way on that sends a message."""
    seen: set[str] = set()
    following = program.after(action_id)
    while following is not None and following not in seen:
        if _kind(program.action(following)):
            return following
        seen.add(following)
        following = program.after(following)
    return None


def _kind(action: Any) -> str:  # noqa: ANN401 - one of the schema's action classes
    return MESSAGES.get(getattr(action.config, "template_id", ""), "")
