"""Rows of the outbox, however far they have come."""

from datetime import datetime
from typing import Any

from loops.ports import Writer
from loops.store import outbox
from loops.store.database import DEFAULT_PROJECT
from loops.store.ids import new_id
from loops.store.outbox import NewMessage
from notify.message import Address, EmailTarget, Message, SlackTarget
from notify.outbox import Standing, as_columns, rests

TO_SLACK = SlackTarget(1, "C1")
TO_ADA = EmailTarget(2, (Address("ada@example.org", "Ada"),))


async def stored(
    writer: Writer,
    now: datetime,
    status: str = "pending",
    *,
    message: Message | None = None,
    project: str = DEFAULT_PROJECT,
    run_id: str | None = None,
    step_id: str | None = None,
    **columns: Any,
) -> str:
    """A message that stands so; its id. It is due now unless it rests by its status, or `due_at` says otherwise."""
    said = message or Message(TO_SLACK, new_id(), "All is **well**")
    due_at = columns.pop("due_at", None if rests(status, None) else now)
    standing = Standing(status, due_at, **columns)  # type: ignore[arg-type]
    new = NewMessage(
        project_id=project,
        key=said.key,
        kind=said.target.kind,
        connection_id=said.target.connection_id,
        message=said.as_json(),
        standing=as_columns(standing),
        run_id=run_id,
        step_id=step_id,
    )
    made = await writer.run(lambda connection: outbox.insert(connection, new, now))
    assert made is not None
    return made
