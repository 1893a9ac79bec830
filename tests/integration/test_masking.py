"""Masks in dispatch: from posted deliveries to runs and verdicts, on SQLite and on Postgres, by a clock of our own."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.errors import DefinitionError
from loops.event import Delivery, Event
from loops.store import masks as store
from loops.store import workflows
from loops.store.mask_tables import masks
from loops.store.tables import claims, deliveries
from server.app import Wiring
from server.explain import explained
from server.pages.words import stage_words
from tests.integration.running import PROJECT, Running, issue, log_action, running, workflow
from tests.integration.test_dispatch import Failing, all_batches, batch, count, posted
from triggers.github import GitHubSource
from triggers.keys import Key
from triggers.masking import Mask, Rule
from triggers.source import Ignored

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.instant = datetime(2026, 11, 30, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.instant

    def go(self, seconds: float) -> None:
        self.instant += timedelta(seconds=seconds)


class Twins(GitHubSource):
    """GitHub, but a delivery may mean several events: as many as its issue's title says."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = 0

    def parse(self, delivery: Delivery, parsed: object, settings: Mapping[str, Any]) -> list[Event] | Ignored:
        made = super().parse(delivery, parsed, settings)
        title = "" if isinstance(made, Ignored) else str(made[0].properties["title"])
        if isinstance(made, Ignored) or not title.startswith("times "):
            return made
        one = made[0]
        return [
            Event(f"{one.uuid[:-2]}{n:02}", one.name, one.source, one.distinct_id, one.timestamp, one.properties)
            for n in range(int(title.removeprefix("times ")))
        ]


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(
    module_database_url: str, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    wiring = Wiring(clock=clock, sources={"github": Twins()}, engine=Failing, dispatching=False)
    async with running(tmp_path_factory.mktemp("web"), module_database_url, role="web", wiring=wiring) as started:
        yield started


async def masked(service: Running, repository: str, **masking: Any) -> str:
    """A workflow on the repository with this masking."""
    document = workflow(repository, log_action("a", "x"), repository=repository, trigger_masking=masking or None)
    return (await service.create(document)).id


async def sent(service: Running, repository: str, number: int = 1, **more: Any) -> str:
    """A new fact, posted and dispatched: the delivery."""
    delivery = await posted(service, issue(repository, number, **more))
    await all_batches(service)
    return delivery


async def stages(service: Running, *deliveries: str) -> list[str]:
    return [verdict["stage"] for one in deliveries for verdict in await service.verdicts(one)]


async def windows(service: Running, flow: str) -> Sequence[tuple[datetime, int]]:
    query = sa.select(masks.c.started_at, masks.c.count).where(masks.c.workflow_id == flow)
    return await service.read(lambda connection: [tuple(row) for row in connection.execute(query)])


async def test_the_same_hash_starts_one_run_and_the_others_say_why_they_do_not(service, clock):
    flow = await masked(service, "acme/one", hash="all", ttl=3600)
    first = await sent(service, "acme/one")
    begun = clock.now()
    clock.go(10)
    second = await sent(service, "acme/one", 2)
    assert [run["delivery_id"] for run in await service.runs(flow)] == [first]
    assert (await service.delivery(second))["reason"] == "no loop started; 1 masked"
    (started,), (held,) = await service.verdicts(first), await service.verdicts(second)
    end = f"its window ends at {begun + timedelta(hours=1):%Y-%m-%d %H:%M:%S} UTC"
    assert (started["stage"], started["passed"]) == ("start", True)
    assert started["reason"] == (
        f"every filter and brake passed; the same hash is masked from now on; {end} (hash 'all')"
    )
    assert (held["stage"], held["passed"]) == ("mask", False)
    assert held["reason"] == f"the same hash passed at {begun:%Y-%m-%d %H:%M:%S} UTC, {end} (hash 'all')"
    assert [one["passed"] for one in held["compared"]] == [True] * 4


async def test_mq_08_a_window_is_not_extended_by_what_it_masks(service, clock):
    flow = await masked(service, "acme/ttl", hash="all", ttl=60)
    fired = []
    for seconds in (0, 59, 2, 58, 1, 1):  # at 0, 59, 61, 119, 120, 121
        clock.go(seconds)
        fired.append((await stages(service, await sent(service, "acme/ttl")))[0])
    assert fired == ["start", "mask", "start", "mask", "mask", "start"]
    assert [number for _, number in await windows(service, flow)] == [1]


async def test_mq_06_a_day_is_over_after_twenty_four_hours_and_not_before(service, clock):
    await masked(service, "acme/day", hash="all", ttl=86_400)
    fired = []
    for minutes in (0, 24 * 60 - 1, 2, 24 * 60 - 1, 2):  # at 0 h, 23:59, 24:01, 48:00, 48:02
        clock.go(60 * minutes)
        fired += await stages(service, await sent(service, "acme/day"))
    assert fired == ["start", "mask", "start", "mask", "start"]


async def test_mq_08_a_window_of_less_than_a_minute_is_refused(service):
    with pytest.raises(DefinitionError, match="59 is out of range") as caught:
        await masked(service, "acme/short", hash="all", ttl=59)
    assert (caught.value.http_status, caught.value.path) == (400, "trigger_masking.ttl")


async def test_mq_08_a_threshold_is_a_sampler_and_says_when_it_fires_next(service):
    flow = await masked(service, "acme/threshold", hash="{event.properties.repository}", threshold=3)
    ids = [await sent(service, "acme/threshold", number) for number in range(1, 8)]
    assert sorted(ids.index(run["delivery_id"]) + 1 for run in await service.runs(flow)) == [1, 4, 7]
    (second,) = await service.verdicts(ids[1])
    assert second["reason"].startswith("match 2 of 3; fires next at 4; its window ends at 2029-")
    (fourth,) = await service.verdicts(ids[3])
    told = "every filter and brake passed; match 4 of the window, 1 of 3; fires next at 7;"
    assert fourth["reason"].startswith(told)


@pytest.mark.parametrize("text", ["{event.properties.review_state}", "{upper(event.properties.review_state)}"])
async def test_mq_08_a_falsy_or_failing_hash_masks_nothing_and_says_so(service, text):
    flow = await masked(service, f"acme/falsy-{text[1:3]}", hash=text, ttl=60)
    ids = [await sent(service, f"acme/falsy-{text[1:3]}", number) for number in (1, 2)]
    assert len(await service.runs(flow)) == 2
    for one in ids:
        (verdict,) = await service.verdicts(one)
        assert verdict["reason"].startswith("every filter and brake passed; not masked: its hash ")
    assert await windows(service, flow) == []


async def test_cases_5_and_7_hashes_are_independent_and_so_are_workflows(service):
    by_sender = await masked(service, "acme/keys", hash="{event.properties.title}", ttl=60)
    by_all = await masked(service, "acme/keys", hash="all", ttl=60)
    for title in ("a", "b", "a", "c"):
        await sent(service, "acme/keys", title=title)
    assert (len(await service.runs(by_sender)), len(await service.runs(by_all))) == (3, 1)


async def test_cases_3_4_and_9_a_batch_is_counted_one_by_one(service):
    every = await masked(service, "acme/batch", hash="all", ttl=60, threshold=5)
    once = await masked(service, "acme/batch", hash="all", ttl=60)
    for number in range(10):
        await posted(service, issue("acme/batch", number))
    assert await all_batches(service) == 10
    assert (len(await service.runs(every)), len(await service.runs(once))) == (2, 1)
    await sent(service, "acme/batch", 11)
    assert (len(await service.runs(every)), len(await service.runs(once))) == (3, 1)


async def test_only_what_passed_everything_else_is_counted(service):
    flow = await masked(service, "acme/order", hash="all", ttl=60, threshold=2)
    fact = issue("acme/order", node_id="I_same")
    for payload in (fact, fact, {**issue("acme/order"), "action": "closed"}):  # fires; the same fact; another action
        await posted(service, payload)
    await all_batches(service)
    assert [number for _, number in await windows(service, flow)] == [1]
    assert (await stages(service, await sent(service, "acme/order")))[0] == "mask"


async def test_what_a_mask_held_back_is_a_fact_that_was_taken(service):
    flow = await masked(service, "acme/taken", hash="all", ttl=60)
    await sent(service, "acme/taken")
    fact = issue("acme/taken", node_id="I_masked")
    told = [await posted(service, fact) for _ in range(2)]
    await all_batches(service)
    assert await stages(service, *told) == ["mask", "claim"]
    assert [number for _, number in await windows(service, flow)] == [2]


async def test_case_17_a_slot_is_given_back_when_the_run_could_not_be_started(service, clock, monkeypatch):  # D3
    monkeypatch.setattr("triggers.dispatch.RETRIES", (timedelta(0),) * 3)
    flow = await masked(service, "acme/back", hash="all", ttl=60)
    service.services.engine.refused = 1
    refused = await posted(service, issue("acme/back", 1))
    await batch(service)
    assert (await service.runs(flow), await windows(service, flow)) == ([], [])
    assert await count(service, claims, claims.c.delivery_id == refused) == 0
    await service.write(
        lambda c: c.execute(deliveries.update().where(deliveries.c.id == refused).values(status="quarantined"))
    )
    passes, held = await sent(service, "acme/back", 2), await sent(service, "acme/back", 3)
    assert await stages(service, passes, held) == ["start", "mask"]


async def test_a_threshold_is_given_back_too(service, monkeypatch):
    monkeypatch.setattr("triggers.dispatch.RETRIES", (timedelta(0),) * 3)
    flow = await masked(service, "acme/back-n", hash="all", ttl=60, threshold=2)
    for number in (1, 2):
        await sent(service, "acme/back-n", number)
    service.services.engine.refused = 1
    third = await posted(service, issue("acme/back-n", 3))
    await batch(service)
    assert [number for _, number in await windows(service, flow)] == [2]
    await batch(service)
    assert (await stages(service, third), [number for _, number in await windows(service, flow)]) == (["start"], [3])


async def test_the_events_of_one_delivery_are_counted_once_however_often_it_is_tried(service, monkeypatch):
    monkeypatch.setattr("triggers.dispatch.RETRIES", (timedelta(0),) * 3)
    flow = await masked(service, "acme/twins", hash="all", ttl=60, threshold=2)
    first = await posted(service, issue("acme/twins", title="times 1"))
    await batch(service)
    service.services.engine.refused = 1
    several = await posted(service, issue("acme/twins", title="times 4"))  # matches 2, 3, 4, 5: the third fails first
    await batch(service)
    assert [number for _, number in await windows(service, flow)] == [2]
    await all_batches(service)
    assert await stages(service, first, several) == ["start", "mask", "start", "mask", "start"]
    assert [number for _, number in await windows(service, flow)] == [5]
    assert len(await service.runs(flow)) == 3
    assert (await service.delivery(several))["runs"] == 2


async def test_mq_01_changing_the_trigger_or_the_hash_compiles_the_hash_anew(service):
    flow = await masked(service, "acme/edited", hash="{event.properties.title}", ttl=60)
    await sent(service, "acme/edited", title="a")
    assert await stages(service, await sent(service, "acme/edited", title="a")) == ["mask"]
    document = workflow("edited", log_action("a", "x"), repository="acme/moved")
    update = service.services.workflows.update
    await update(PROJECT, flow, {**document, "trigger_masking": {"hash": "{event.properties.title}", "ttl": 60}}, "t")
    # Another trigger with the same masking: the hash is asked of its events, and a title that has fired is masked.
    told = [await sent(service, "acme/moved", title=title) for title in ("a", "b", "b")]
    assert await stages(service, *told) == ["mask", "start", "mask"]
    await update(PROJECT, flow, {**document, "trigger_masking": {"hash": "{event.properties.number}", "ttl": 60}}, "t")
    told = [await sent(service, "acme/moved", number, title="a") for number in (1, 2, 1)]
    assert await stages(service, *told) == ["start", "start", "mask"]
    await update(PROJECT, flow, document, "t")
    assert await stages(service, await sent(service, "acme/moved", title="a")) == ["start"]


@pytest.mark.parametrize(
    ("changed", "stage"),
    [({"ttl": 120}, "start"), ({"threshold": 3}, "start"), ({"hash": "{'all'}"}, "start"), ({}, "mask")],
    ids=str,
)
async def test_an_edit_begins_anew_where_it_changes_what_is_counted(service, changed, stage):
    repository, masking = f"acme/anew-{changed}", {"hash": "all", "ttl": 60}
    flow = await masked(service, repository, **masking)
    await sent(service, repository)
    document = workflow("another name", log_action("b", "y"), repository=repository)
    await service.services.workflows.update(PROJECT, flow, {**document, "trigger_masking": {**masking, **changed}}, "t")
    assert await stages(service, await sent(service, repository)) == [stage]


async def test_a_window_outlives_switching_off_and_on(service):
    flow = await masked(service, "acme/switched", hash="all", ttl=60)
    await sent(service, "acme/switched")
    await service.services.workflows.disable(PROJECT, flow, running="drain")
    await service.services.workflows.enable(PROJECT, flow, "test")
    assert await stages(service, await sent(service, "acme/switched")) == ["mask"]


async def test_the_time_that_counts_is_that_of_arrival(service, clock):
    await masked(service, "acme/late", hash="{formatDateTime(now(), '%Y-%m-%d %H:%i')}", ttl=60)
    flow = await masked(service, "acme/late", hash="all", ttl=60)
    first, second = await posted(service, issue("acme/late", 1)), None
    begun = clock.now()
    clock.go(59)
    second = await posted(service, issue("acme/late", 2))
    clock.go(7200)  # nobody dispatched meanwhile
    await all_batches(service)
    assert sorted(await stages(service, first, second)) == ["mask", "start", "start", "start"]
    assert await windows(service, flow) == [(begun, 2)]


async def test_a_damaged_masking_leaves_its_loop_out_alone_with_the_reason(service):
    flow, well = await masked(service, "acme/damaged", hash="all"), await masked(service, "acme/damaged")
    stored = (await service.services.workflows.get(PROJECT, flow)).definition

    def damage(connection: sa.Connection) -> None:
        epoch = workflows.bump_epoch(connection)
        broken = {**stored, "trigger_masking": {"hash": 5}}
        workflows.update(connection, flow, definition=broken, changed_epoch=epoch)

    await service.write(damage)
    await sent(service, "acme/damaged")
    assert (len(await service.runs(flow)), len(await service.runs(well))) == (0, 1)
    assert "trigger_masking" in service.services.definitions.broken[flow].reason
    await service.services.workflows.archive(PROJECT, flow, running="drain")


async def test_what_was_masked_is_explained_as_it_was_decided(service):
    flow = await masked(service, "acme/explained", hash="all", ttl=60)
    first, second = await sent(service, "acme/explained", 1), await sent(service, "acme/explained", 2)
    told = await explained(service.services, PROJECT, second)
    (mine,) = [one for one in told.verdicts if one.verdict["workflow"] == flow]
    assert (mine.verdict["stage"], mine.recomputed, mine.run) == ("mask", False, None)
    assert stage_words("mask") == "masked"
    # A loop that did not listen then has no verdict: what its mask would have said is not known.
    later = await masked(service, "acme/explained", hash="all", ttl=60)
    (asked,) = (await explained(service.services, PROJECT, first, later)).verdicts
    assert asked.verdict["stage"] == "enabled"


# Several processes


@pytest.mark.postgres
@pytest.mark.parametrize(("masking", "runs"), [({"ttl": 3600}, 1), ({"ttl": 3600, "threshold": 4}, 6)], ids=str)
async def test_two_dispatchers_fire_a_hash_as_often_as_one(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, masking, runs
):
    monkeypatch.setattr("triggers.dispatch.BATCH", 4)  # so that both have several
    wiring = Wiring(dispatching=False)
    async with (
        running(tmp_path / "one", postgres_url, role="web", wiring=wiring) as one,
        running(tmp_path / "two", postgres_url, role="web", wiring=wiring) as two,
    ):
        flows = [await masked(one, "acme/raced", hash=text, **masking) for text in ("all", "{'every'}")]
        for number in range(24):
            await posted(one if number % 2 else two, issue("acme/raced", number))
        await asyncio.gather(_until_done(one), _until_done(two))
        assert [len(await one.runs(flow)) for flow in flows] == [runs, runs]
        assert [await windows_count(one, flow) for flow in flows] == [24, 24]
        query = sa.select(sa.func.max(deliveries.c.attempts))
        assert await one.read(lambda connection: connection.execute(query).scalar_one()) == 0


async def windows_count(service: Running, flow: str) -> int:
    return sum(number for _, number in await windows(service, flow))


async def _until_done(process: Running) -> None:
    waiting = sa.select(deliveries.c.id).where(deliveries.c.status == "accepted")
    while await process.read(lambda connection: connection.execute(waiting).first()) is not None:
        await batch(process)


@pytest.mark.postgres
@pytest.mark.parametrize("known", [True, False], ids=["window there", "window begun meanwhile"])
async def test_a_hash_that_another_process_counts_waits_for_the_next_batch_and_holds_up_nobody(
    postgres_url: str, tmp_path: Path, known
):
    async with running(tmp_path, postgres_url, role="web", wiring=Wiring(dispatching=False)) as service:
        flow = await masked(service, "acme/held", hash="all", ttl=3600)
        free = await masked(service, "acme/free")
        await posted(service, issue("acme/held", 0))
        if known:
            await batch(service)
        held, other = await posted(service, issue("acme/held", 1)), await posted(service, issue("acme/free", 2))
        engine = service.service._database.writer._engine
        key = Mask("all", Rule(timedelta(hours=1))).key({"properties": {}}, datetime.now(UTC))
        assert isinstance(key, Key)
        with engine.begin() as elsewhere:
            window = store.lock(elsewhere, flow, key.digest)
            assert (window is not None) is known
            if window is None:
                now = datetime.now(UTC)
                assert store.begin(elsewhere, flow, key.digest, store.MaskRow(now, now + timedelta(hours=1), 1), now)
            await batch(service)
            assert len(await service.runs(free)) == 1
            row = await service.delivery(held)
            assert (row["status"], row["attempts"]) == ("accepted", 0)
            assert (await service.delivery(other))["status"] == "dispatched"
        await all_batches(service)
        assert await stages(service, held) == ["mask"]
        assert len(await service.runs(flow)) == (1 if known else 0)
