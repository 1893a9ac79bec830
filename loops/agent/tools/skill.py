"""skill_read: what a project, or the repository of a task, teaches its agents, read when it is needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from loops.agent.tools.tool import Arguments, CallContext, Tool, ToolError, TypedTool
from loops.definition.findings import suggestion
from loops.event import JsonValue

MAIN = "SKILL.md"
MOST_PIECE = 12_000


class Checkout(Protocol):
    """Files of a task's checkout, read where nothing outside of it can be reached. Paths are relative to its root."""

    async def listed(self, folder: str, most: int) -> list[str]:
        """Paths of the files in a folder and below, relative to it, `most` at most; nothing where there is none."""

    async def text(self, path: str, most: int) -> str | None:
        """The beginning of a text file, `most` bytes at most; None where there is none."""


class SkillSource(Protocol):
    """Where skills lie."""

    async def files(self, name: str) -> Mapping[str, str] | None:
        """The files of a skill by their path in its folder, SKILL.md among them; None where there is no such skill."""


@dataclass(frozen=True, slots=True)
class SkillBook:
    """The skills that a task was given, by name, looked for in each source in turn."""

    names: Sequence[str]
    sources: Sequence[SkillSource]

    async def files(self, name: str) -> Mapping[str, str] | None:
        """See SkillSource."""
        for source in self.sources:
            found = await source.files(name)
            if found is not None:
                return found
        return None


class _Read(Arguments):
    name: str = Field(description="The skill's name, from the list in the first message.")
    file: str = Field(default=MAIN, description="A further file of the skill, by its path in the skill's folder.")
    start: int = Field(default=0, ge=0, description="The character to begin with.")
    length: int = Field(default=MOST_PIECE, ge=1, le=MOST_PIECE, description="The most characters to return.")


def skill_tools(book: SkillBook) -> Sequence[Tool]:
    """The tool over the skills of one task."""

    async def read(given: _Read, context: CallContext) -> JsonValue:  # noqa: ARG001
        if given.name not in book.names:
            raise ToolError(
                "SKILL_NOT_GIVEN", f"the task has no skill {given.name!r}", suggestion(given.name, list(book.names))
            )
        files = await book.files(given.name)
        if files is None:
            hint = "go on without it, and say so in the report"
            raise ToolError("SKILL_NOT_FOUND", f"the skill {given.name!r} is not there any more", hint)
        # Looked up among the names that are there: a path that leads elsewhere is none of them.
        text = files.get(given.file)
        if text is None:
            hint = suggestion(given.file, sorted(files))
            raise ToolError("SKILL_NO_SUCH_FILE", f"{given.name} has no file {given.file!r}", hint)
        cut = text[given.start : given.start + given.length]
        rest = given.start + len(cut)
        return {
            "skill": given.name,
            "file": given.file,
            "text": cut,
            "length": len(text),
            "next_start": rest if rest < len(text) else None,
            "files": [*sorted(files)],
        }

    return [
        TypedTool(
            "skill_read",
            "Read a skill whole, or a further file of it: guidance for a kind of work, given with this task.",
            _Read,
            read,
        )
    ]
