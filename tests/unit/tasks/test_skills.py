"""Skills as equipment: from the project's store, and from the checkout of a task."""

from typing import Any

import pytest

from loops.agent.interruption import Abort
from loops.agent.tools import Resources, toolbox
from loops.agent.tools.tool import CallContext, ToolError
from loops.store.tasks import ClaimedTask
from loops.tasks.equipment import Job
from loops.tasks.skills import Skills

FILES = {
    ".claude/skills/sort/SKILL.md": "first",
    ".claude/skills/sort/words.md": "words",
    "skills/sort/SKILL.md": "second",
    "skills/ship/SKILL.md": "ship it",
    "secrets.txt": "s3cret",
}


class Checkout:
    """Files of a repository in memory."""

    async def listed(self, folder: str, most: int) -> list[str]:
        return [path.removeprefix(f"{folder}/") for path in FILES if path.startswith(f"{folder}/")][:most]

    async def text(self, path: str, most: int) -> str | None:
        return None if path not in FILES else FILES[path][:most]


class Empty:
    """A project without skills."""

    async def read(self, _fn: Any) -> Any:
        return []


async def reading(*names: str, checkout: Checkout | None = None) -> Any:
    """What skill_read gives in a task with these skills."""
    task = ClaimedTask("task", "default", "flow", "run", "task", "", {"skills": names}, (), None, False)
    async with Skills(Empty()).open(Job(task, "a worker", Abort())) as kit:
        resources = Resources(checkout=checkout)
        box = toolbox(resources if kit is None else kit.into(resources))

    async def read(name: str, **more: Any) -> Any:
        return await box.tools["skill_read"].call({"name": name, **more}, CallContext("task", 1, 0))

    return read if "skill_read" in box.tools else None


async def test_a_skill_of_the_repository_is_read_from_the_first_folder_that_has_it():
    read = await reading("sort", "ship", checkout=Checkout())
    assert (await read("sort"))["text"] == "first"
    assert (await read("sort"))["files"] == ["SKILL.md", "words.md"]
    piece = await read("sort", file="words.md", start=1, length=2)
    assert (piece["text"], piece["length"], piece["next_start"]) == ("or", 5, 3)
    assert (await read("ship"))["text"] == "ship it"


@pytest.mark.parametrize(
    ("given", "file", "code"),
    [
        ("sort", "../../../secrets.txt", "SKILL_NO_SUCH_FILE"),
        ("../..", "SKILL.md", "SKILL_NOT_GIVEN"),
        ("gone", "SKILL.md", "SKILL_NOT_FOUND"),
    ],
)
async def test_nothing_beside_the_skills_of_the_task_is_read(given: str, file: str, code: str):
    read = await reading("sort", "gone", checkout=Checkout())
    with pytest.raises(ToolError) as refused:
        await read(given, file=file)
    assert refused.value.code == code


async def test_a_name_that_is_no_skill_s_leads_nowhere_in_the_checkout():
    read = await reading("../..", checkout=Checkout())
    with pytest.raises(Exception, match="name does not fit"):
        await read("../..")


async def test_a_task_without_skills_has_no_such_tool():
    assert await reading(checkout=Checkout()) is None
    read = await reading("sort")
    with pytest.raises(ToolError) as refused:
        await read("sort")
    assert refused.value.code == "SKILL_NOT_FOUND"
