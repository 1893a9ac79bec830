"""From accepted deliveries to runs, batch by batch, on SQLite and on Postgres. Nothing executes here."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.errors import StoreBusy
from loops.event import Delivery, Event
from loops.packed import unpack
from loops.ports import Engine
from loops.store import workflows
from loops.store.tables import claims, deliveries, epochs, events, projects, revisions, runs
from server.app import Wiring
from tests.contract.databases import away, terminate
from tests.integration.running import PROJECT, Running, eventually, issue, log_action, running, workflow
from triggers.dispatch import BatchOutcome
from triggers.github import GitHubSource
from triggers.run_ids import run_id
from triggers.source import Arrival, Ignored, Incoming

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Breaking:
    """GitHub, but for deliveries that it cannot parse."""

    name = "github"
    limit = GitHubSource.limit
    kept_headers = GitHubSource.kept_headers

    def __init__(self) -> None:
        self._inner = GitHubSource()
        self.broken: dict[str, Exception] = {}

    def receive(self, incoming: Incoming, secrets: Mapping[str, str]) -> Arrival:
        return self._inner.receive(incoming, secrets)

    def parse(self, delivery: Delivery, parsed: object, settings: Mapping[str, Any]) -> list[Event] | Ignored:
        if delivery.key in self.broken:
            raise self.broken[delivery.key]
        return self._inner.parse(delivery, parsed, settings)


class Failing:
    """An engine that cannot enqueue certain runs, because the database refuses it."""

    def __init__(self, inner: Engine) -> None:
        self._inner = inner
        self.refused = 0

    def enqueue(self, connection: sa.Connection, run_id: str, seq: int, *, delay: float = 0.0) -> None:
        if self.refused:
            self.refused -= 1
            connection.execute(epochs.insert().values(name="definitions", value=0))
        self._inner.enqueue(connection, run_id, seq, delay=delay)

    def enqueue_task(self, connection: sa.Connection, task_id: str, seq: int) -> None:
        self._inner.enqueue_task(connection, task_id, seq)

    async def wake(self, run_id: str, seq: int) -> None:
        await self._inner.wake(run_id, seq)

    async def drop(self, run_id: str, seq: int) -> None:
        await self._inner.drop(run_id, seq)


@pytest.fixture(scope="module")
def source() -> Breaking:
    return Breaking()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(
    module_database_url: str, source: Breaking, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    """A web process that dispatches when it is told to."""
    wiring = Wiring(sources={"github": source}, engine=Failing, dispatching=False)
    async with running(tmp_path_factory.mktemp("web"), module_database_url, role="web", wiring=wiring) as started:
        yield started


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again with the next batch."""
    monkeypatch.setattr("triggers.dispatch.RETRIES", (timedelta(0),) * 3)


async def batch(service: Running) -> BatchOutcome:
    return await service.service.dispatcher.batch()


async def all_batches(service: Running) -> int:
    """Dispatch all that is due; how many deliveries it was."""
    taken = 0
    while (outcome := await batch(service)).taken:
        taken += outcome.taken
    return taken


async def posted(service: Running, payload: Mapping[str, Any], **more: Any) -> str:
    answer = await service.post(payload, **more)
    assert answer["http"] == 202, answer
    return str(answer["delivery"])


async def started_by(service: Running, delivery_id: str) -> list[Mapping[str, Any]]:
    query = sa.select(runs).where(runs.c.delivery_id == delivery_id)
    return await service.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])


async def count(service: Running, table: sa.Table, *where: Any) -> int:
    query = sa.select(sa.func.count()).select_from(table).where(*where)
    found: int = await service.read(lambda connection: connection.execute(query).scalar_one())
    return found


async def listening(service: Running, repository: str, **more: Any) -> str:
    return (await service.create(workflow(repository, log_action("a", "x"), repository=repository, **more))).id


async def test_a_delivery_that_a_loop_wants_becomes_one_queued_run_with_its_event(service):
    flow = await listening(service, "acme/plain")
    delivery = await posted(service, issue("acme/plain", 3))
    assert (await batch(service)).runs == 1
    row = await service.delivery(delivery)
    assert (row["status"], row["reason"], row["runs"]) == ("dispatched", "", 1)
    (run,) = await started_by(service, delivery)
    assert (run["workflow_id"], run["status"], run["seq"], run["position"]) == (flow, "queued", 0, "a")
    (verdict,) = await service.verdicts(delivery)
    assert (verdict["workflow"], verdict["stage"], verdict["passed"]) == (flow, "start", True)
    assert await count(service, events, events.c.delivery_id == delivery, events.c.body.is_not(None)) == 1
    assert (await service.service._client.statuses([(run["id"], 0)])) == {(run["id"], 0): "ENQUEUED"}


async def test_the_id_of_a_run_is_made_of_event_and_workflow_alone(service):
    flow = await listening(service, "acme/ids")
    delivery = await posted(service, issue("acme/ids"))
    await batch(service)
    (run,) = await started_by(service, delivery)
    event = Event(
        uuid=run["event_uuid"],
        name="x",
        source="github",
        distinct_id="",
        timestamp=datetime.now(UTC),
        properties={},
    )
    assert run["id"] == run_id(event, PROJECT, flow)
    assert run_id(event, PROJECT, flow, 1) != run["id"] != run_id(event, "other", flow)


async def test_a_delivery_that_nobody_wants_is_ignored_and_leaves_no_event(service):
    delivery = await posted(service, issue("acme/nobody"))
    await batch(service)
    row = await service.delivery(delivery)
    assert (row["status"], row["reason"], row["runs"]) == ("ignored", "no loop listens for it", 0)
    assert await count(service, events, events.c.delivery_id == delivery) == 0


async def test_a_near_miss_is_kept_with_what_was_compared_and_without_the_event(service):
    flow = await listening(service, "acme/near")
    delivery = await posted(service, {**issue("acme/near"), "action": "closed"})
    await batch(service)
    assert (await service.delivery(delivery))["reason"] == "no loop started; 1 came near"
    (verdict,) = await service.verdicts(delivery)
    assert (verdict["workflow"], verdict["stage"], verdict["passed"]) == (flow, "filters", False)
    assert next(one for one in verdict["compared"] if not one["passed"])["key"] == "action"
    assert await count(service, events, events.c.delivery_id == delivery, events.c.body.is_not(None)) == 0


def _asking(repository: str, further: Mapping[str, Any]) -> dict[str, Any]:
    document = workflow(f"{repository} asks", log_action("a", "x"), repository=repository)
    document["actions"][0]["config"]["filters"]["properties"].append(further)
    return document


async def test_a_relative_date_is_read_in_the_time_zone_of_the_project_when_it_is_matched(service):
    zone = sa.update(projects).where(projects.c.id == PROJECT)
    await service.write(lambda connection: connection.execute(zone.values(time_zone="Asia/Tokyo")))
    service.services.definitions.forget()
    asked = {"key": "timestamp", "type": "event_metadata", "operator": "is_date_before", "value": "-1d"}
    flow = (await service.create(_asking("acme/dates", asked))).id
    delivery = await posted(service, issue("acme/dates"))
    await batch(service)
    (verdict,) = await service.verdicts(delivery)
    assert (verdict["workflow"], verdict["stage"]) == (flow, "filters")
    (failed,) = (one for one in verdict["compared"] if not one["passed"])
    moment = datetime.fromisoformat(failed["expected"].removeprefix("-1d, "))
    assert moment.utcoffset() == timedelta(hours=9)
    assert timedelta(hours=23) < datetime.now(UTC) - moment < timedelta(hours=25)
    await service.write(lambda connection: connection.execute(zone.values(time_zone="UTC")))
    service.services.definitions.forget()


async def test_ui_06_a_filter_that_fails_for_an_event_is_a_verdict_that_says_so(service):
    await service.create(_asking("acme/fails", {"type": "hogql", "key": "length(properties.number) > 1"}))
    delivery = await posted(service, issue("acme/fails"))
    await batch(service)
    (verdict,) = await service.verdicts(delivery)
    assert (verdict["stage"], verdict["passed"]) == ("filters", False)
    assert "filter error, length() needs a text" in verdict["reason"]


async def test_a_redelivery_starts_nothing_whether_it_comes_later_or_at_once(service):
    await listening(service, "acme/redelivered")
    payload, key = issue("acme/redelivered"), str(uuid.uuid4())
    answers = await asyncio.gather(*(service.post(payload, key=key) for _ in range(20)))
    assert sorted(answer["http"] for answer in answers) == [200] * 19 + [202]
    assert {answer["status"] for answer in answers} == {"accepted", "duplicate"}
    assert len({answer["delivery"] for answer in answers}) == 1
    await all_batches(service)
    again = await service.post(payload, key=key)
    await all_batches(service)
    assert (again["http"], again["status"]) == (200, "duplicate")
    assert len(await started_by(service, again["delivery"])) == 1


async def test_one_fact_told_by_two_deliveries_starts_one_run_and_names_the_first(service):
    flow = await listening(service, "acme/claimed")
    payload = issue("acme/claimed")
    first = await posted(service, payload)
    await batch(service)
    second = await posted(service, payload)
    await batch(service)
    assert len(await service.runs(flow)) == 1
    (verdict,) = await service.verdicts(second)
    assert (verdict["stage"], verdict["passed"]) == ("claim", False)
    assert first in verdict["reason"]


async def test_one_fact_told_twice_in_one_batch_starts_one_run(service):
    flow = await listening(service, "acme/claimed-together")
    payload = issue("acme/claimed-together")
    first, second = await posted(service, payload), await posted(service, payload)
    await batch(service)
    assert [run["delivery_id"] for run in await service.runs(flow)] == [first]
    assert [one["stage"] for one in await service.verdicts(second)] == ["claim"]


async def test_a_claim_is_a_workflows_own(service):
    flows = [await listening(service, "acme/two-loops") for _ in range(2)]
    await posted(service, issue("acme/two-loops"))
    await batch(service)
    assert [len(await service.runs(flow)) for flow in flows] == [1, 1]


async def test_a_loop_sees_nothing_that_was_accepted_before_it_was_enabled(service):
    flow = await listening(service, "acme/later", status="draft")
    before = await posted(service, issue("acme/later"))
    await service.services.workflows.enable(PROJECT, flow, "test")
    await all_batches(service)
    assert await service.runs(flow) == []
    (verdict,) = await service.verdicts(before)
    assert (verdict["stage"], verdict["passed"]) == ("enabled", False)
    after = await posted(service, issue("acme/later"))
    await all_batches(service)
    assert [run["delivery_id"] for run in await service.runs(flow)] == [after]


async def test_a_loop_that_was_switched_off_starts_nothing_more(service):
    flow = await listening(service, "acme/off")
    await service.services.workflows.disable(PROJECT, flow, running="drain")
    await posted(service, issue("acme/off"))
    await all_batches(service)
    assert await service.runs(flow) == []


@pytest.mark.postgres
async def test_a_loop_enabled_again_before_dispatch_is_said_to_have_been(service):
    flow = await listening(service, "acme/again")
    before = await posted(service, issue("acme/again"))
    await service.services.workflows.disable(PROJECT, flow, running="drain")
    await service.services.workflows.enable(PROJECT, flow, "test")
    await all_batches(service)
    (verdict,) = await service.verdicts(before)
    told = "the loop was enabled, or enabled again, after this delivery had arrived"
    assert (verdict["stage"], verdict["reason"]) == ("enabled", told)


async def test_a_loop_enabled_while_a_batch_begins_misses_no_delivery(postgres_url, tmp_path):
    wiring = Wiring(dispatching=False)
    async with running(tmp_path, postgres_url, role="web", wiring=wiring) as service:
        flow = await listening(service, "acme/racing", status="draft")
        await all_batches(service)  # so that the index stands at the present epoch
        loop, done = asyncio.get_running_loop(), []

        async def enable_and_post() -> None:
            await service.services.workflows.enable(PROJECT, flow, "test")
            done.append(await posted(service, issue("acme/racing")))

        def after_the_first_statement(*_: Any) -> None:
            asyncio.run_coroutine_threadsafe(enable_and_post(), loop).result(30)

        engine = service.service._database.writer._engine
        sa.event.listen(engine, "after_cursor_execute", after_the_first_statement, once=True)
        await batch(service)
        await all_batches(service)
        assert [run["delivery_id"] for run in await service.runs(flow)] == done


async def test_a_delivery_that_cannot_be_parsed_is_quarantined_with_its_error_and_holds_up_nobody(
    service, source, at_once
):
    flow = await listening(service, "acme/poison")
    key = str(uuid.uuid4())
    source.broken[key] = ValueError("this \ud800 cannot \x00 be read")
    poison = await posted(service, issue("acme/poison", 1), key=key)
    others = [await posted(service, issue("acme/poison", number)) for number in (2, 3)]
    await batch(service)
    assert sorted(run["delivery_id"] for run in await service.runs(flow)) == others
    row = await service.delivery(poison)
    assert (row["status"], row["attempts"]) == ("accepted", 1)
    for _ in range(3):
        await batch(service)
    row = await service.delivery(poison)
    assert (row["status"], row["attempts"]) == ("quarantined", 4)
    assert row["reason"] == "ValueError: this \ufffd cannot \ufffd be read"
    assert await started_by(service, poison) == []


async def test_a_delivery_that_can_be_parsed_in_the_end_is_dispatched(service, source, at_once):
    flow = await listening(service, "acme/heals")
    key = str(uuid.uuid4())
    source.broken[key] = KeyError("not yet")
    delivery = await posted(service, issue("acme/heals"), key=key)
    await batch(service)
    del source.broken[key]
    await batch(service)
    row = await service.delivery(delivery)
    assert (row["status"], row["reason"], row["runs"]) == ("dispatched", "", 1)
    assert len(await service.runs(flow)) == 1


async def test_a_batch_whose_time_is_up_leaves_the_rest_to_the_next(service, monkeypatch):
    monkeypatch.setattr("triggers.dispatch.BATCH_SECONDS", 0.0)
    monkeypatch.setattr("triggers.dispatch._AT_ONCE", 2)
    monkeypatch.setattr(service.service.dispatcher, "_most", 256)  # which later tests get back
    flow = await listening(service, "acme/slow")
    sent = [await posted(service, issue("acme/slow", number)) for number in range(5)]
    batches = [await batch(service) for _ in range(3)]
    assert [(one.taken, one.runs, one.left) for one in batches] == [(2, 2, True), (2, 2, True), (1, 1, False)]
    assert [(await service.delivery(delivery))["runs"] for delivery in sent] == [1] * 5
    assert len(await service.runs(flow)) == 5


async def test_what_failed_is_tried_again_only_when_its_time_has_come(service, source):
    key = str(uuid.uuid4())
    source.broken[key] = ValueError("always")
    delivery = await posted(service, issue("acme/patience"), key=key)
    await batch(service)
    assert (await batch(service)).taken == 0
    await eventually(lambda: batch(service), lambda outcome: outcome.taken == 1, patience=5)
    query = sa.select(deliveries.c.attempts, deliveries.c.next_attempt_at).where(deliveries.c.id == delivery)
    attempts, again = await service.read(lambda c: c.execute(query).one())
    assert attempts == 2
    assert timedelta(seconds=3) < again - datetime.now(UTC) < timedelta(seconds=6)
    await service.write(lambda c: c.execute(deliveries.delete().where(deliveries.c.id == delivery)))


async def test_an_event_that_cannot_be_started_is_undone_whole_and_started_later(service, at_once):
    flow = await listening(service, "acme/undone")
    service.services.engine.refused = 1
    refused = await posted(service, issue("acme/undone", 1))
    other = await posted(service, issue("acme/undone", 2))
    await batch(service)
    assert [run["delivery_id"] for run in await service.runs(flow)] == [other]
    assert await count(service, events, events.c.delivery_id == refused) == 0
    assert await count(service, claims, claims.c.delivery_id == refused) == 0
    assert "IntegrityError" in (await service.delivery(refused))["reason"]
    await batch(service)
    assert len(await started_by(service, refused)) == 1


async def test_order_is_kept_within_a_subject_and_only_there(service, source, at_once):
    flow = await listening(service, "acme/ordered")
    key = str(uuid.uuid4())
    source.broken[key] = ValueError("not yet")
    first = await posted(service, issue("acme/ordered", 1), key=key)
    second = await posted(service, issue("acme/ordered", 1))
    elsewhere = await posted(service, issue("acme/ordered", 2))
    await batch(service)
    assert [run["delivery_id"] for run in await service.runs(flow)] == [elsewhere]
    third = await posted(service, issue("acme/ordered", 1))
    await batch(service)
    assert [run["delivery_id"] for run in await service.runs(flow)] == [elsewhere]
    del source.broken[key]
    await batch(service)
    newest_first = [run["delivery_id"] for run in await service.runs(flow)]
    assert newest_first == [third, second, first, elsewhere]


async def test_what_waits_for_its_turn_holds_up_nobody(service, source):
    """More deliveries behind one that failed than a batch takes."""
    flow = await listening(service, "acme/behind")
    key = str(uuid.uuid4())
    source.broken[key] = ValueError("not yet")
    failing = await posted(service, issue("acme/behind", 1), key=key)
    await batch(service)
    row = await service.read(
        lambda c: dict(c.execute(sa.select(deliveries).where(deliveries.c.id == failing)).mappings().one())
    )
    crowd = [{**row, "id": f"{failing}-{n:03}", "key": f"{key}-{n}", "next_attempt_at": None} for n in range(300)]
    await service.write(lambda c: c.execute(deliveries.insert(), crowd))
    other = await posted(service, issue("acme/behind", 2))
    outcome = await batch(service)
    assert (outcome.taken, [run["delivery_id"] for run in await service.runs(flow)]) == (1, [other])
    await service.write(lambda c: c.execute(deliveries.delete().where(deliveries.c.id.like(f"{failing}%"))))


async def test_a_delivery_whose_body_is_damaged_or_gone_is_set_aside_alone(service, at_once):
    flow = await listening(service, "acme/damaged")
    damaged, gone, well = [await posted(service, issue("acme/damaged", number)) for number in (1, 2, 3)]
    held = service.services.intake._handoff
    for one in (damaged, gone):
        held.take(one)
    here = deliveries.update()
    await service.write(lambda c: c.execute(here.where(deliveries.c.id == damaged).values(body=b"no zstd")))
    await service.write(lambda c: c.execute(here.where(deliveries.c.id == gone).values(body=None)))
    for _ in range(4):
        await batch(service)
    assert [run["delivery_id"] for run in await service.runs(flow)] == [well]
    assert [(await service.delivery(one))["status"] for one in (damaged, gone)] == ["quarantined"] * 2


async def test_a_delivery_of_a_source_that_is_not_there_is_quarantined_alone(service, at_once):
    flow = await listening(service, "acme/unknown-source")
    other, well = [await posted(service, issue("acme/unknown-source", number)) for number in (1, 2)]
    await service.write(lambda c: c.execute(deliveries.update().where(deliveries.c.id == other).values(source="gone")))
    for _ in range(4):
        await batch(service)
    assert (await service.delivery(other))["status"] == "quarantined"
    assert [run["delivery_id"] for run in await service.runs(flow)] == [well]


async def test_text_that_no_database_stores_is_stored_mended_and_stops_nobody(service):
    flow = await listening(service, "acme/nul")
    odd = await posted(service, issue("acme/nul", 1, title="a\x00b\ud800c"))
    plain = await posted(service, issue("acme/nul", 2))
    await all_batches(service)
    assert sorted(run["delivery_id"] for run in await service.runs(flow)) == [odd, plain]
    (run,) = [one for one in await service.runs(flow) if one["delivery_id"] == odd]
    query = sa.select(events.c.body).where(events.c.uuid == run["event_uuid"])
    body = await service.read(lambda connection: connection.execute(query).scalar_one())
    assert unpack(body)["properties"]["title"] == "a\ufffdb\ufffdc"


BROKEN: list[Any] = [
    {"actions": []},
    {"actions": [{"type": "trigger", "config": {"type": "internal-event", "filters": {"properties": [{"key": 1}]}}}]},
    {"actions": [{"type": "trigger", "config": {"type": "internal-event", "filters": {"events": "all"}}}]},
    {"actions": [{"type": "trigger", "config": {"type": "internal-event", "filters": ["x"]}}]},
    {"actions": [{"type": "trigger", "config": "internal-event"}]},
    {"actions": ["trigger"]},
    {"actions": "none"},
    {"actions": None},
    {},
    [],
    "nothing",
]


def _put(flow: str, definition: Any) -> Callable[[sa.Connection], None]:
    """Store a definition past every check."""

    def put(connection: sa.Connection) -> None:
        epoch = workflows.bump_epoch(connection)
        workflows.update(connection, flow, definition=definition, changed_epoch=epoch)

    return put


@pytest.mark.parametrize("definition", BROKEN, ids=str)
async def test_a_stored_definition_that_is_broken_is_left_out_alone_with_its_reason(service, definition):
    flow = await listening(service, "acme/broken")
    well = await listening(service, "acme/broken")

    await service.write(_put(flow, definition))
    await posted(service, issue("acme/broken"))
    await all_batches(service)
    assert (len(await service.runs(flow)), len(await service.runs(well))) == (0, 1)
    assert service.services.definitions.broken[flow].reason
    await service.services.workflows.archive(PROJECT, flow, running="drain")
    await service.services.workflows.archive(PROJECT, well, running="drain")


async def test_a_broken_definition_that_is_mended_listens_again(service):
    flow = await listening(service, "acme/mended")
    whole = (await service.services.workflows.get(PROJECT, flow)).definition
    for definition in ({}, dict(whole)):
        await service.write(_put(flow, definition))
        await posted(service, issue("acme/mended"))
        await all_batches(service)
    assert len(await service.runs(flow)) == 1
    assert flow not in service.services.definitions.broken


@pytest.mark.parametrize("definition", [{"actions": []}, "nothing", None], ids=str)
async def test_a_loop_whose_revision_cannot_run_any_more_keeps_no_other_from_starting(service, definition):
    repository = f"acme/revision-{uuid.uuid4()}"
    flow, well = await listening(service, repository), await listening(service, repository)
    here = revisions.c.workflow_id == flow
    change = revisions.delete() if definition is None else revisions.update().values(definition=definition)
    await service.write(lambda connection: connection.execute(change.where(here)))
    delivery = await posted(service, issue(repository))
    await batch(service)
    assert (len(await service.runs(flow)), len(await service.runs(well))) == (0, 1)
    stages = {verdict["workflow"]: verdict["stage"] for verdict in await service.verdicts(delivery)}
    assert stages == {flow: "definition", well: "start"}
    assert await count(service, claims, claims.c.workflow_id == flow) == 0


async def test_what_this_installation_wrote_itself_starts_nothing_and_says_so(service):
    flow = await listening(service, "acme/own")
    connection = sa.table("loops_connections", sa.column("id"), sa.column("config", sa.JSON))
    here = sa.update(connection).where(connection.c.id == service.hook)
    await service.write(lambda c: c.execute(here.values(config={"app_slug": "loops"})))
    payload = issue("acme/own")
    payload["sender"] = {"login": "loops[bot]", "type": "Bot"}
    delivery = await posted(service, payload)
    await all_batches(service)
    await service.write(lambda c: c.execute(here.values(config={})))
    assert await service.runs(flow) == []
    assert [one["stage"] for one in await service.verdicts(delivery)] == ["own_output"]


@pytest.mark.postgres
async def test_a_batch_that_loses_its_database_is_dispatched_whole_later(postgres_server, postgres_url, tmp_path):
    wiring = Wiring(dispatching=False)
    async with running(tmp_path, postgres_url, role="web", wiring=wiring) as service:
        flow = await listening(service, "acme/lost")
        ids = [await posted(service, issue("acme/lost", number)) for number in range(3)]
        with away(postgres_server.get_uri(), postgres_url), pytest.raises(StoreBusy):
            await batch(service)
        engine = service.service._database.writer._engine

        def in_the_middle(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if "INSERT INTO loops_runs" in statement and not service.service.stopping.is_set():
                service.service.stopping.set()
                terminate(postgres_server.get_uri(), postgres_url)

        sa.event.listen(engine, "after_cursor_execute", in_the_middle)
        with pytest.raises(StoreBusy):
            await batch(service)
        assert await service.runs(flow) == []
        assert (await service.delivery(ids[0]))["attempts"] == 0
        await all_batches(service)
        assert sorted(run["delivery_id"] for run in await service.runs(flow)) == ids


@pytest.mark.postgres
async def test_two_processes_share_the_deliveries_and_keep_each_subjects_order(postgres_url: str, tmp_path: Path):
    wiring = Wiring(dispatching=False)
    async with (
        running(tmp_path / "one", postgres_url, role="web", wiring=wiring) as one,
        running(tmp_path / "two", postgres_url, role="web", wiring=wiring) as two,
    ):
        flow = await listening(one, "acme/shared")
        ids: dict[int, list[str]] = {0: [], 1: [], 2: []}
        for number in range(30):
            sender = one if number % 2 else two
            ids[number % 3].append(await posted(sender, issue("acme/shared", number % 3)))
        outcomes = await asyncio.gather(*(_share(process) for process in (one, two)))
        assert sum(outcomes) == 30
        found = sorted(await one.runs(flow), key=lambda run: run["created_at"])
        for wanted in ids.values():
            assert [run["delivery_id"] for run in found if run["delivery_id"] in wanted] == wanted


async def _share(process: Running) -> int:
    total = 0
    while True:
        outcome = await batch(process)
        total += outcome.runs
        if not outcome.taken and not await process.read(_accepted):
            return total


def _accepted(connection: sa.Connection) -> bool:
    return connection.execute(sa.select(deliveries.c.id).where(deliveries.c.status == "accepted")).first() is not None


@pytest.mark.parametrize("role", ["all", "web"])
async def test_a_service_dispatches_by_itself_what_it_accepted(database_url, tmp_path, role):
    async with running(tmp_path / "service", database_url, role=role) as service:
        flow = await listening(service, "acme/self")
        delivery = await posted(service, issue("acme/self"))
        assert (await service.settled(delivery))["status"] == "dispatched"
        assert len(await service.runs(flow)) == 1
