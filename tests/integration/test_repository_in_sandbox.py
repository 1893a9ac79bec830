"""A task on a repository in a real sandbox: what an agent plants there runs nowhere else, and what it did arrives."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from loops.tasks.workspace.bwrap import Bwrap
from tests.conftest import new_sqlite
from tests.doubles.github_repository import NAME
from tests.integration.boxes import bwrap, work_dir
from tests.integration.repository_tasks import Lab, laboratory
from tests.integration.tasking import rounds_of

__all__ = ["bwrap", "work_dir"]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(
    bwrap: Bwrap, work_dir: Path, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    url = new_sqlite(sqlite_template, folder)
    async with laboratory(folder, url, bwrap, work_dir=str(work_dir)) as made:
        yield made


async def codes(lab: Lab, task_id: str) -> list[int]:
    """How the commands of a task ended."""
    results = [one for kept in await rounds_of(lab.service, task_id) for one in kept["results"]]
    told = [json.loads(one["text"]) for one in results if one["name"] == "shell_run"]
    return [one["result"]["exit_code"] for one in told]


async def test_what_an_agent_did_with_its_tools_arrives_and_it_sees_no_token_and_no_cache_to_write(lab):
    task, (output,) = await lab.worked("whole")
    assert await codes(lab, task.id) == [0]
    assert (task.status, output.status) == ("completed", "written"), task.reason
    branch = lab.hub.pulls[-1]["head"]["ref"]
    assert lab.hub.git.changed(NAME, branch) == ["A docs/limits.md", "M src/export.py"]


async def test_a_poisoned_checkout_runs_nothing_outside_and_its_change_is_judged(lab):
    task, (output,) = await lab.worked("poisoning")
    assert await codes(lab, task.id) == [0, 0]
    assert (task.status, output.status) == ("completed", "written"), task.reason
    assert not list(lab.work.rglob("CANARY"))
    assert not list(lab.work.rglob("ran"))
    branch = lab.hub.pulls[-1]["head"]["ref"]
    assert lab.hub.git.changed(NAME, branch) == ["A act.sh", "M src/export.py"]


async def test_links_to_the_outside_stay_links_and_are_refused(lab):
    task, (output,) = await lab.worked("leaking")
    assert (task.ending, output.status) == ("refused", "refused")
    assert "leak: is a link to /etc/shadow" in output.reason
    assert b"root:" not in (output.patch or b"")
