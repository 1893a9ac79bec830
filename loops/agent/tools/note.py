"""note_open and note_close."""

from collections.abc import Sequence

from pydantic import Field

from loops.agent.notes import MOST_NOTE_BYTES, NoteStore
from loops.agent.tools.tool import Arguments, CallContext, Tool, ToolError, TypedTool
from loops.event import JsonValue


class _Open(Arguments):
    text: str = Field(description="What to remember, complete in itself; at most 16 KB.")


class _Close(Arguments):
    id: str = Field(description="The note's id, such as o_a3f2.")
    reason: str = Field(default="", description="What became of it.")


def note_tools(store: NoteStore) -> Sequence[Tool]:
    """The tools over one loop's notes on one subject."""

    async def open_note(given: _Open, context: CallContext) -> JsonValue:
        text = given.text.strip()
        if not text:
            raise ToolError("NOTE_EMPTY", "a note needs a text")
        if (size := len(text.encode("utf-8", "replace"))) > MOST_NOTE_BYTES:
            raise ToolError("NOTE_TOO_LONG", f"the note has {size} bytes, {MOST_NOTE_BYTES} at most", "shorten it")
        return {"id": await store.open(text, context.key)}

    async def close_note(given: _Close, context: CallContext) -> JsonValue:
        note_id = given.id.strip()
        if not note_id:
            raise ToolError("NOTE_ID_EMPTY", "a note's id is needed", "open notes are listed in the first message")
        closing = await store.close(note_id, given.reason.strip(), context.key)
        if closing != "closed":
            words = "there is no such note" if closing == "not_found" else "the note is closed already"
            raise ToolError(f"NOTE_{closing.upper()}", f"{note_id}: {words}", "use an id from the list of open notes")
        return {"closed": note_id}

    return [
        TypedTool(
            "note_open",
            "Leave a note that the next run of this loop on the same subject is shown, until it is closed.",
            _Open,
            open_note,
            "keyed_write",
        ),
        TypedTool(
            "note_close",
            "Close an open note that is dealt with; it is archived.",
            _Close,
            close_note,
            "keyed_write",
        ),
    ]
