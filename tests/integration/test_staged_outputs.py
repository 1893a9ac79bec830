"""LOOPS_STAGED: what tasks ask to have written is checked and shown, and not written."""

import pytest

from loops.errors import Conflict
from loops.tasks.outputs.answers import Person, again
from tests.conftest import new_sqlite
from tests.doubles.github_repository import NAME
from tests.integration.repository_tasks import laboratory, outputs_of
from tests.integration.running import PROJECT, eventually


async def test_staged_everything_is_checked_and_shown_and_nothing_is_written(sqlite_template, tmp_path):
    async with laboratory(tmp_path, new_sqlite(sqlite_template, tmp_path), staged="yes") as lab:
        task, outputs = await lab.worked("everything")
        assert {one.status for one in outputs} == {"staged"}
        assert (task.status, task.reason) == ("completed", "the agent finalized; staged: nothing was written")
        assert any(b"+LIMIT = 50_000" in (one.patch or b"") for one in outputs)
        refused, _ = await lab.worked("protected")
        assert refused.ending == "refused"
        hub = lab.hub
        who, services, this = Person(PROJECT, "1", "Ada"), lab.service.services, (outputs[0].task_id, outputs[0].number)
        now, staged = services.clock.now(), services.settings.staged == "yes"
        with pytest.raises(Conflict, match="LOOPS_STAGED is yes"):
            await lab.service.write(lambda connection: again(connection, who, this, now, staged=staged))
        # A process with another setting may take such a request.
        await lab.service.write(lambda connection: again(connection, who, this, now))
        left, *_ = await eventually(lambda: outputs_of(lab.service, task.id), lambda rows: rows[0].due_at is None)
        assert (left.status, left.reason) == ("staged", "this service writes nothing: LOOPS_STAGED is yes")
        assert (hub.pulls, hub.comments, hub.issues, hub.git.branches(NAME)) == ([], [], [], ["main"])
