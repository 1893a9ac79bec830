"""The notes of one workflow on one subject, in the database."""

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from loops.agent.notes import Closing, Note
from loops.agent.tools.tool import ToolError
from loops.ports import Clock, Reader, Writer
from loops.store import notes as store
from loops.store.tasks import ClaimedTask


class StoredNotes:
    """Fills NoteStore for one task. Without a subject there is nothing that a later run could be about."""

    def __init__(
        self, writer: Writer, reader: Reader, clock: Clock, task: ClaimedTask, mask: Callable[[str], str]
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._task = task
        self._mask = mask
        self.subject: str = task.request.get("subject") or ""

    async def open(self, text: str, key: str) -> str:
        """See NoteStore."""
        task, now, said = self._task, self._clock.now(), self._mask(text)

        def keep(connection: sa.Connection) -> str:
            if store.is_full(connection, task.workflow_id, self.subject, key):
                words = f"{store.MOST_OPEN} notes are open on this subject"
                raise ToolError("NOTE_LIMIT", words, "close what is dealt with by note_close")
            return store.open_note(
                connection,
                project_id=task.project_id,
                workflow_id=task.workflow_id,
                subject=self.subject,
                task_id=task.id,
                text=said,
                key=key,
                now=now,
            )

        return await self._writer.run(keep)

    async def close(self, note_id: str, reason: str, key: str) -> Closing:
        """See NoteStore."""
        here, now, said = (self._task.workflow_id, self.subject), self._clock.now(), self._mask(reason)
        return await self._writer.run(lambda connection: store.close_note(connection, *here, note_id, said, key, now))

    async def opened(self) -> Sequence[Note]:
        """See NoteStore."""
        here = (self._task.workflow_id, self.subject)
        rows = await self._reader.read(lambda connection: store.opened(connection, *here))
        return [Note(row.id, row.text) for row in rows]
