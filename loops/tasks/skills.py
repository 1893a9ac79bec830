"""Skills as equipment: what the project's store, and the checkout of the task, teach its agent.

The agent is shown names and descriptions in its first message, and reads the rest by `skill_read`.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from loops.agent.tools import Resources
from loops.agent.tools.skill import MAIN, Checkout, SkillBook, SkillSource
from loops.ports import Reader
from loops.store import skills as store
from loops.tasks.equipment import Job, Kit
from loops.tasks.skill import LONGEST_FILE, MOST_FILES, Skill, as_text, check_skill_name

FOLDERS = (".claude/skills", "skills")
"""Where a repository keeps its skills, the first that has one of the name."""


@dataclass(frozen=True, slots=True)
class StoredSkills:
    """Those of a project's store."""

    reader: Reader
    project_id: str

    async def files(self, name: str) -> Mapping[str, str] | None:
        """See SkillSource."""
        found = await self.reader.read(lambda connection: store.named(connection, self.project_id, [name]))
        if not found:
            return None
        row = found[0]
        return {MAIN: as_text(Skill(row.name, row.description, row.body)), **row.files}


@dataclass(frozen=True, slots=True)
class RepositorySkills:
    """Those of a checkout."""

    checkout: Checkout

    async def files(self, name: str) -> Mapping[str, str] | None:
        """See SkillSource."""
        check_skill_name(name)  # a name is a folder here, and must lead nowhere else
        for folder in (f"{one}/{name}" for one in FOLDERS):
            if await self.checkout.text(f"{folder}/{MAIN}", 1) is None:
                continue
            paths = await self.checkout.listed(folder, MOST_FILES)
            texts = {path: await self.checkout.text(f"{folder}/{path}", LONGEST_FILE) for path in paths}
            return {path: text for path, text in texts.items() if text is not None}
        return None


@dataclass(frozen=True, slots=True)
class Skills:
    """Fills Equipment. It stands behind the workspace, whose checkout it reads through `Resources.checkout`."""

    reader: Reader

    @asynccontextmanager
    async def open(self, job: Job) -> AsyncIterator[Kit | None]:
        """See Equipment."""
        names = tuple(job.request.get("skills") or ())
        stored = StoredSkills(self.reader, job.task.project_id)

        def into(resources: Resources) -> Resources:
            sources: list[SkillSource] = [stored]
            if resources.checkout is not None:
                sources.append(RepositorySkills(resources.checkout))
            return replace(resources, skills=SkillBook(names, sources))

        yield Kit(into) if names else None
