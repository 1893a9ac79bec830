"""(temporary, replaced by the helper's)"""

from typing import Any
from loops.ports import Posted
from notify.enqueue import Outbox
from notify.message import EmailTarget, Message, PageTarget, SlackTarget, Address
from notify.registry import ConnectedNotifiers
from notify.sending import Listener, OutboxSender
from loops.store import outbox as store
from loops.store import run_requests as run_store


class OutboxMessages:
    def __init__(self, outbox: Any, sender: Any) -> None:
        self.o = outbox
        self.s = sender

    def put(self, connection: Any, kind: str, inputs: Any, origin: Any) -> Posted:
        target: Any = PageTarget()
        text = str(inputs.get("text") or "")
        if kind == "slack" and inputs.get("slack_workspace") and int(inputs["slack_workspace"]) != 999:
            target = SlackTarget(
                int(inputs["slack_workspace"]), str(inputs["channel"]), str(inputs.get("thread_ts") or "")
            )
        st = self.o.put(
            connection,
            Message(target, origin.key, text),
            project_id=origin.project_id,
            run_id=origin.run_id,
            step_id=origin.step_id,
        )
        return self.state(connection, st.id)

    def state(self, connection: Any, message_id: str) -> Posted:
        row = store.held(connection, message_id)
        return Posted(
            row.id,
            row.status,
            row.status in ("sent", "refused", "shown") or (row.status == "uncertain" and row.due_at is None),
            row.code,
            row.reason,
            row.mend,
            tuple(row.refs),
            tuple(row.missed),
        )

    def withdraw(self, connection: Any, message_id: str) -> bool:
        return False

    def wake(self) -> None:
        self.s.wake()


def make_outbox(writer: Any, reader: Any, engine: Any, clock: Any, book: Any, *, mask: Any, alone: bool) -> Any:
    seqs: dict[str, int] = {}

    def within(connection: Any, row: Any) -> None:
        seq = run_store.wake_waiting(connection, row.run_id, row.step_id, {"message": row.id}, clock.now())
        if seq is not None:
            seqs[row.id] = seq

    async def after(row: Any) -> None:
        if row.id in seqs:
            await engine.wake(row.run_id, seqs.pop(row.id))

    sender = OutboxSender(
        writer, reader, clock, ConnectedNotifiers(book), listener=Listener(within, after), alone=alone
    )
    return OutboxMessages(Outbox(clock, mask=mask), sender), sender
