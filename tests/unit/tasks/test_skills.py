"""Skills as equipment: from the project's store, and from the checkout of a task."""

from pathlib import Path
from typing import Any

import pytest

from loops.agent.interruption import Abort
from loops.agent.tools import Resources, toolbox
from loops.agent.tools.tool import CallContext, ToolError
from loops.store.tasks import ClaimedTask
from loops.tasks.equipment import Job
from loops.tasks.skills import Skills
from loops.tasks.workspace.files import Files
from loops.tasks.workspace.reading import CheckoutFiles

FILES = {
    ".claude/skills/sort/SKILL.md": "first",
    ".claude/skills/sort/words.md": "words",
    "skills/sort/SKILL.md": "second",
    "skills/ship/SKILL.md": "ship it",
    "secrets.txt": "s3cret",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose agent would like to have read what is outside."""
    outside = tmp_path / "outside.md"
    outside.write_text("s3cret")
    top = tmp_path / "checkout"
    for path, text in FILES.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    (top / "skills" / "ship" / "linked.md").symlink_to(outside)
    (top / "skills" / "linked").symlink_to(top / "skills" / "ship")
    return top


class Empty:
    """A project without skills."""

    async def read(self, _fn: Any) -> Any:
        return []


async def reading(*names: str, checkout: Path | None = None) -> Any:
    """What skill_read gives in a task with these skills."""
    task = ClaimedTask("task", "default", "flow", "run", "task", "", {"skills": names}, (), None, False)
    async with Skills(Empty()).open(Job(task, "a worker", Abort())) as kit:
        resources = Resources(checkout=None if checkout is None else CheckoutFiles(Files(checkout)))
        box = toolbox(resources if kit is None else kit.into(resources))

    async def read(name: str, **more: Any) -> Any:
        return await box.tools["skill_read"].call({"name": name, **more}, CallContext("task", 1, 0))

    return read if "skill_read" in box.tools else None


async def test_a_skill_of_the_repository_is_read_from_the_first_folder_that_has_it(checkout):
    read = await reading("sort", "ship", checkout=checkout)
    assert (await read("sort"))["text"] == "first"
    assert (await read("sort"))["files"] == ["SKILL.md", "words.md"]
    piece = await read("sort", file="words.md", start=1, length=2)
    assert (piece["text"], piece["length"], piece["next_start"]) == ("or", 5, 3)
    ship = await read("ship")
    assert (ship["text"], ship["files"]) == ("ship it", ["SKILL.md"])


@pytest.mark.parametrize(
    ("given", "file", "code"),
    [
        ("sort", "../../../secrets.txt", "SKILL_NO_SUCH_FILE"),
        ("../..", "SKILL.md", "SKILL_NOT_GIVEN"),
        ("gone", "SKILL.md", "SKILL_NOT_FOUND"),
        ("linked", "SKILL.md", "SKILL_NOT_FOUND"),
    ],
)
async def test_nothing_beside_the_skills_of_the_task_is_read(checkout: Path, given: str, file: str, code: str):
    read = await reading("sort", "gone", "linked", checkout=checkout)
    with pytest.raises(ToolError) as refused:
        await read(given, file=file)
    assert refused.value.code == code


async def test_a_name_that_is_no_skill_s_leads_nowhere_in_the_checkout(checkout):
    read = await reading("../..", checkout=checkout)
    with pytest.raises(Exception, match="name does not fit"):
        await read("../..")


async def test_a_task_without_skills_has_no_such_tool(checkout):
    assert await reading(checkout=checkout) is None
    read = await reading("sort")
    with pytest.raises(ToolError) as refused:
        await read("sort")
    assert refused.value.code == "SKILL_NOT_FOUND"
