"""The notes of one workflow on one subject, in the database."""

from collections.abc import Sequence

from loops.agent.notes import Closing, Note
from loops.ports import Clock, Reader, Writer
from loops.store import notes as store
from loops.store.tasks import ClaimedTask


class StoredNotes:
    """Fills NoteStore for one task. Without a subject there is nothing that a later run could be about."""

    def __init__(self, writer: Writer, reader: Reader, clock: Clock, task: ClaimedTask) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._task = task
        self.subject: str = task.request.get("subject") or ""

    async def open(self, text: str, key: str) -> str:
        """See NoteStore."""
        task, now = self._task, self._clock.now()
        return await self._writer.run(
            lambda connection: store.open_note(
                connection,
                project_id=task.project_id,
                workflow_id=task.workflow_id,
                subject=self.subject,
                task_id=task.id,
                text=text,
                key=key,
                now=now,
            )
        )

    async def close(self, note_id: str, reason: str, key: str) -> Closing:
        """See NoteStore."""
        here, now = (self._task.workflow_id, self.subject), self._clock.now()
        return await self._writer.run(lambda connection: store.close_note(connection, *here, note_id, reason, key, now))

    async def opened(self) -> Sequence[Note]:
        """See NoteStore."""
        here = (self._task.workflow_id, self.subject)
        rows = await self._reader.read(lambda connection: store.opened(connection, *here))
        return [Note(row.id, row.text) for row in rows]
