"""The messages of a task's thread, as its agent hears them."""

from collections.abc import Callable
from dataclasses import dataclass

from loops.agent.inbox import Heard
from loops.ports import Reader
from loops.store import threads as store
from loops.tasks.thread.said import said_block


@dataclass(frozen=True, slots=True)
class StoredInbox:
    """Reads what no round was told of; the journal marks it together with the round that tells."""

    reader: Reader
    task_id: str
    mask: Callable[[str], str]

    async def heard(self) -> Heard:
        """See Inbox."""
        rows = await self.reader.read(lambda connection: store.untold(connection, self.task_id))
        text, keys = said_block(rows)
        return Heard(self.mask(text), keys)
