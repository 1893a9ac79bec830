"""What an agent writes comes back as an event of this installation's own app, and starts nothing."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.agent.model import ToolSpec
from loops.agent.tools.tool import CallContext, Effect
from loops.event import JsonValue
from loops.store.tables import connections
from tests.integration.guarded import outbox_of, telling
from tests.integration.running import Running, issue, running
from tests.integration.tasking import calls, ends, scripted

pytestmark = pytest.mark.asyncio(loop_scope="module")

REPOSITORY = "acme/echo"


class OpensIssue:
    """Opens an issue, as an app would: GitHub tells the service of it, in the app's name."""

    effect: Effect = "write"
    spec = ToolSpec("open_issue", "Opens an issue.", {"type": "object", "properties": {}})

    def __init__(self) -> None:
        self.service: Running | None = None
        self.told: list[str] = []

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> JsonValue:
        assert self.service is not None
        number = 100 + len(self.told)
        payload = issue(REPOSITORY, number, title="A finding", user={"login": "loops[bot]", "type": "Bot"})
        payload["sender"] = {"login": "loops[bot]", "type": "Bot"}
        answer = await self.service.post(payload)
        self.told.append(answer["delivery"])
        return {"number": number}


@pytest.fixture(scope="module")
def opens() -> OpensIssue:
    return OpensIssue()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(
    module_database_url: str, opens: OpensIssue, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    script = [calls("open_issue"), calls("open_issue", {"again": True}), ends()]
    wiring = replace(scripted(lambda: list(script)), tools=(opens,))
    async with running(tmp_path_factory.mktemp("echo"), module_database_url, wiring=wiring) as started:
        opens.service, opens.told = started, []
        app = sa.update(connections).where(connections.c.id == started.hook).values(config={"app_slug": "loops"})
        await started.write(lambda connection: connection.execute(app))
        yield started


async def test_ag_15_what_an_agent_writes_never_starts_its_own_loop_again(service, opens):
    flow = await service.create(telling("echo"))
    run_id = await service.started(flow.id, issue(REPOSITORY, 1))
    await service.until(run_id, "completed")

    assert len(opens.told) == 2
    for delivery in opens.told:
        await service.settled(delivery)
        assert [verdict["stage"] for verdict in await service.verdicts(delivery)] == ["own_output"]
    assert [run["id"] for run in await service.runs(flow.id)] == [run_id]
    assert len(await outbox_of(service, run_id)) == 1

    # The same from a person is no output of ours: the loop still listens.
    other = await service.started(flow.id, issue(REPOSITORY, 2))
    assert other != run_id
    await service.until(other, "completed")
