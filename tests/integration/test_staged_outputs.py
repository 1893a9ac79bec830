"""LOOPS_STAGED: what tasks ask to have written is checked and shown, and not written."""

from tests.conftest import new_sqlite
from tests.doubles.github_repository import NAME
from tests.integration.repository_tasks import laboratory


async def test_staged_everything_is_checked_and_shown_and_nothing_is_written(sqlite_template, tmp_path):
    async with laboratory(tmp_path, new_sqlite(sqlite_template, tmp_path), staged="yes") as lab:
        task, outputs = await lab.worked("everything")
        assert {one.status for one in outputs} == {"staged"}
        assert (task.status, task.reason) == ("completed", "the agent finalized; staged: nothing was written")
        assert any(b"+LIMIT = 50_000" in (one.patch or b"") for one in outputs)
        refused, _ = await lab.worked("protected")
        assert refused.ending == "refused"
        hub = lab.hub
        assert (hub.pulls, hub.comments, hub.issues, hub.git.branches(NAME)) == ([], [], [], ["main"])
