"""What there is of a result when the task that was to give it did not end by itself: sent once, to where the result
would have gone (D38)."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loops.errors import LoopsError
from loops.event import JsonValue
from loops.ports import Messages, Origin
from loops.runs.program import Program
from loops.runs.variables import assign

if TYPE_CHECKING:
    import sqlalchemy as sa

    from loops.runs.settling import Acting

log = logging.getLogger("loops.runs")

MESSAGES: Mapping[str, str] = {"template-slack": "slack", "template-email": "email"}
"""The templates that send a message, and its kind."""


class PartialResults:
    """Puts partial results into the outbox."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def put(self, connection: "sa.Connection", acting: "Acting", partial: JsonValue) -> None:
        """Store the message that would have followed, made of the partial result; nothing where none follows."""
        segment = acting.segment
        notify = _following_message(segment.program, acting.action_id)
        if notify is None:
            return
        run_id = segment.claimed.run_id
        outputs = segment.program.node(acting.action_id).outputs
        try:
            variables = assign(acting.state.variables, outputs, partial, refer_to=acting.action_id)
            inputs = segment.program.render(notify, acting.scope_with(partial, variables))
            origin = Origin(segment.claimed.project_id, run_id, notify, f"{run_id}:{notify}:incomplete")
            self._messages.put(connection, _kind(segment.program.action(notify)), inputs, origin)
        except (LoopsError, ValueError) as error:
            log.warning("the partial result could not be sent: %s", error, extra={"run_id": run_id, "step": notify})


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
