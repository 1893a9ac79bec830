"""Repositories that were renamed, on SQLite and on Postgres."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from server.app import Wiring
from server.explain import explained
from tests.integration.github_loops import comment, connect, exact, listening, sent, verdict_of
from tests.integration.running import PROJECT, Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTE = "the repository was renamed: acme/widgets is called acme/gadgets now"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    wiring = Wiring(dispatching=True)
    async with running(tmp_path_factory.mktemp("d"), module_database_url, role="web", wiring=wiring) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def live(service: Running) -> AsyncIterator[Running]:
    """By way of a connection of the test's own; its loops are switched off in the end."""
    yield await connect(service)
    for listener in service.services.definitions.listeners():
        await service.services.workflows.disable(PROJECT, listener.key, running="drain")


def told(name: str, number: int = 990017, **more: Any) -> dict[str, Any]:
    return comment(repository={"id": number, "full_name": name, "private": False}, **more)


async def test_a_loop_that_names_the_old_name_hears_of_the_repository_and_says_so(live):
    flow = (await live.create(listening())).id
    before = await sent(live, told("Acme/Widgets"))
    after = await sent(live, told("Acme/Gadgets"))
    assert {run["delivery_id"] for run in await live.runs(flow)} == {before, after}
    assert (await verdict_of(live, before, flow))["reason"] == "every filter and brake passed"
    verdict = await verdict_of(live, after, flow)
    assert verdict["reason"] == f"every filter and brake passed; {NOTE}"
    (compared,) = (one for one in verdict["compared"] if one["key"] == "repository")
    assert (compared["actual"], compared["passed"], compared["note"]) == ("acme/widgets", True, NOTE)


async def test_a_loop_that_names_the_new_name_hears_of_it_without_a_notice(live):
    await live.create(listening())
    flow = (await live.create(listening(repository="acme/gadgets"))).id
    await sent(live, told("acme/widgets"))
    delivery = await sent(live, told("acme/gadgets"))
    assert (await verdict_of(live, delivery, flow))["reason"] == "every filter and brake passed"
    assert [run["delivery_id"] for run in await live.runs(flow)] == [delivery]


async def test_a_loop_is_started_once_by_whatever_names_it_hears_of_a_repository(live):
    both = listening()
    both["actions"][0]["config"]["filters"]["properties"][0]["value"] = ["acme/widgets", "acme/gadgets"]
    flow = (await live.create(both)).id
    old = (await live.create(listening())).id
    for name in ("acme/widgets", "acme/gadgets", "acme/widgets"):
        await sent(live, told(name))
    assert (len(await live.runs(flow)), len(await live.runs(old))) == (3, 3)


async def test_another_repository_of_another_number_is_another(live):
    flow = (await live.create(listening())).id
    await sent(live, told("acme/widgets"))
    await sent(live, told("acme/gadgets", 77))
    assert len(await live.runs(flow)) == 1


async def test_an_old_name_that_another_repository_took_is_the_others(live):
    flow = (await live.create(listening())).id
    await sent(live, told("acme/widgets", 1))
    await sent(live, told("acme/gadgets", 1))
    await sent(live, told("acme/widgets", 2))
    assert len(await live.runs(flow)) == 3
    moved = await sent(live, told("acme/gadgets", 1))
    assert len(await live.runs(flow)) == 3
    assert not [one for one in await live.verdicts(moved) if one["passed"]]


async def test_the_names_of_one_connection_tell_nothing_of_another(live, service):
    flow = (await live.create(listening())).id
    await sent(live, told("acme/widgets"))
    await sent(await connect(service), told("acme/gadgets"))
    assert len(await live.runs(flow)) == 1


async def test_other_filters_still_hold_under_the_old_name(live):
    flow = (await live.create(listening(exact("sender", "bob")))).id
    await live.create(listening())
    await sent(live, told("acme/widgets"))
    delivery = await sent(live, told("acme/gadgets"))
    assert await live.runs(flow) == []
    (again,) = (await explained(live.services, PROJECT, delivery, flow)).verdicts
    assert (again.verdict["stage"], again.verdict["passed"]) == ("filters", False)


async def test_names_are_known_after_a_restart_and_in_other_processes(module_database_url, tmp_path, live):
    flow = (await live.create(listening())).id
    await sent(live, told("acme/widgets"))
    async with running(tmp_path, module_database_url, role="web", wiring=Wiring()) as other:
        delivery = await sent(Running(other.service, live.hook), told("acme/gadgets"))
        assert NOTE in (await verdict_of(live, delivery, flow))["reason"]


async def test_ids_that_no_column_holds_are_not_kept(live):
    flow = (await live.create(listening())).id
    for number in (2**63, -1, 0):
        await sent(live, told("acme/widgets", number))
    assert len(await live.runs(flow)) == 3


async def test_a_replay_knows_former_names_too(live):
    flow = (await live.create(listening(repository="acme/before"))).id
    await sent(live, told("acme/before", 78))
    await live.services.workflows.disable(PROJECT, flow, running="drain")
    delivery = await sent(live, told("acme/after", 78))
    await live.services.workflows.enable(PROJECT, flow, "test")
    now = live.services.clock.now()
    note = "the repository was renamed: acme/before is called acme/after now"
    (one,) = (await live.services.replays.missed(PROJECT, flow, (now - timedelta(hours=1), now))).items
    assert (one.delivery_id, one.verdict.stage, note in one.verdict.reason) == (delivery, "start", True)
    (two,) = await live.services.replays.delivery(PROJECT, delivery, flow)
    assert (two.replay, note in two.verdict.reason) == (2, True)
