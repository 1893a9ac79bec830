"""Notes: threads that an agent leaves open for the next run of the same loop and subject."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

MOST_NOTE_BYTES = 16_384
Closing = Literal["closed", "not_found", "already_closed"]


@dataclass(frozen=True, slots=True)
class Note:
    """One note. A closed one stays archived, with the reason."""

    id: str
    text: str
    closed: bool = False
    reason: str = ""


class NoteStore(Protocol):
    """The notes of one loop and one subject. `key` names a call: a call made again writes nothing more."""

    async def open(self, text: str, key: str) -> str:
        """Keep a note; its id, `o_…`."""

    async def close(self, note_id: str, reason: str, key: str) -> Closing:
        """Archive an open note."""

    async def opened(self) -> Sequence[Note]:
        """The open notes, oldest first."""


class MemoryNotes:
    """Notes that live as long as this object: for test runs, which leave nothing behind."""

    def __init__(self, notes: Sequence[Note] = ()) -> None:
        self._notes = {note.id: note for note in notes}
        self._opened: dict[str, str] = {}
        self._closed: dict[str, Closing] = {}

    async def open(self, text: str, key: str) -> str:
        """See NoteStore."""
        if key not in self._opened:
            note = Note(f"o_{len(self._notes) + 1:04x}", text)
            self._notes[note.id] = note
            self._opened[key] = note.id
        return self._opened[key]

    async def close(self, note_id: str, reason: str, key: str) -> Closing:
        """See NoteStore."""
        if key not in self._closed:
            self._closed[key] = self._close(note_id, reason)
        return self._closed[key]

    def _close(self, note_id: str, reason: str) -> Closing:
        note = self._notes.get(note_id)
        if note is None:
            return "not_found"
        if note.closed:
            return "already_closed"
        self._notes[note_id] = Note(note.id, note.text, closed=True, reason=reason)
        return "closed"

    async def opened(self) -> Sequence[Note]:
        """See NoteStore."""
        return [note for note in self._notes.values() if not note.closed]

    def archived(self) -> Sequence[Note]:
        """The closed notes."""
        return [note for note in self._notes.values() if note.closed]
