"""A forecast comes to what a live run over the same deliveries does, on SQLite and on Postgres."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loops.errors import NotFound, RequestError
from loops.runs.succession import run_ended
from loops.store.brake_tables import holds, rates
from loops.store.columns import from_micros
from loops.store.mask_tables import masks
from loops.store.tables import deliveries, runs
from loops.store.task_tables import tasks
from server.app import Wiring
from server.explain import explained
from server.forecast_words import warnings
from tests.integration.running import PROJECT, Running, issue, log_action, running, workflow
from tests.integration.tasking import task_action
from tests.integration.test_dispatch import all_batches, batch, posted
from tests.integration.test_masking import Clock
from triggers.forecasting import Forecast

pytestmark = pytest.mark.asyncio(loop_scope="module")

LASTS = timedelta(seconds=37.3)  # ends at no time at which anything else happens
KEY = "{event.properties.number}"


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(
    module_database_url: str, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    wiring = Wiring(clock=clock, dispatching=False)
    more = {"subject_hourly_runs": "3", "workflow_daily_tasks": "4"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("triggers.forecast_basis._ASSUMED", LASTS)
        folder = tmp_path_factory.mktemp("web")
        async with running(folder, module_database_url, role="web", wiring=wiring, **more) as started:
            yield started


KEYS = st.sampled_from([{}, {"key": KEY}])
BRAKES: Mapping[str, st.SearchStrategy[Any]] = {
    "masking": st.fixed_dictionaries(
        {"hash": st.sampled_from([KEY, "all"]), "ttl": st.integers(60, 90), "threshold": st.sampled_from([None, 2, 3])}
    ),
    "rate_limit": st.builds(
        lambda count, period, key: {"count": count, "period": period, **key},
        st.integers(1, 2),
        st.integers(5, 60),
        KEYS,
    ),
    "debounce": st.builds(
        lambda quiet, more, key: {"quiet": quiet, "longest": quiet + more, **key},
        st.integers(1, 30),
        st.integers(0, 40),
        KEYS,
    ),
    "overlap": st.one_of(
        st.builds(lambda policy, key: {"policy": policy, **key}, st.sampled_from(["skip", "restart"]), KEYS),
        st.builds(
            lambda policy, most, key: {"policy": policy, "maximum": most, **key},
            st.sampled_from(["queue", "parallel"]),
            st.integers(1, 2),
            KEYS,
        ),
    ),
}
ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(1, 2), st.sampled_from(["new", "new", "new", "same", "closed", "elsewhere"])
    ),
    min_size=1,
    max_size=9,
)


class Live:
    """A loop that is enabled, and time that goes on: what is due happens when it is, a run ends after so long."""

    def __init__(self, service: Running, clock: Clock, flow: str) -> None:
        self.service, self.clock, self.flow = service, clock, flow
        self.ends: dict[str, datetime] = {}

    async def until(self, moment: datetime) -> None:
        while (following := await self._next()) is not None and following < moment:
            self.clock.instant = following
            for run in [one for one, end in self.ends.items() if end == following]:
                await self.service.write(lambda connection, one=run: self._end(connection, one))  # type: ignore[misc]
            await batch(self.service)
            await self.note()
        self.clock.instant = moment

    def _end(self, connection: sa.Connection, run: str) -> None:
        connection.execute(runs.update().where(runs.c.id == run).values(status="completed"))
        run_ended(connection, self.service.services.engine, run, self.clock.now())

    async def _next(self) -> datetime | None:
        due = sa.select(sa.func.min(holds.c.due_at)).where(holds.c.workflow_id == self.flow)
        found = await self.service.read(
            lambda connection: connection.execute(due.where(holds.c.released_at.is_(None))).scalar()
        )
        return min([one for one in (found, *self.ends.values()) if one is not None], default=None)

    async def note(self) -> None:
        """Runs that began end in their time; those that were replaced have ended."""
        query = sa.select(runs.c.id).where(runs.c.workflow_id == self.flow, runs.c.status == "queued")
        begun = set(await self.service.read(lambda connection: list(connection.execute(query).scalars())))
        self.ends = {run: self.ends.get(run, self.clock.now() + LASTS) for run in begun}


async def played(
    service: Running, clock: Clock, repository: str, flow: str, came: Sequence[tuple[int, int, str]]
) -> list[str]:
    live, ids, last = Live(service, clock, flow), [], issue(repository)
    for gap, number, kind in came:
        await live.until(clock.now() + timedelta(seconds=gap))
        fact = issue(f"{repository}-other" if kind == "elsewhere" else repository, number)
        if kind == "same":
            fact = last
        elif kind == "closed":
            fact["action"] = "closed"
        else:
            last = fact
        ids.append(await posted(service, fact))
        await all_batches(service)
        await live.note()
    await live.until(clock.now() + timedelta(seconds=50))
    return ids


async def counting(service: Running, flow: str) -> set[datetime]:
    """When what counts for its mask and its rate limit came."""

    def read(connection: sa.Connection) -> set[datetime]:
        windows = sa.select(masks.c.started_at).where(masks.c.workflow_id == flow)
        rows = sa.select(rates.c.passed).where(rates.c.workflow_id == flow)
        instants = [from_micros(at) for row in connection.execute(rows).scalars() for at in row]
        return {*connection.execute(windows).scalars(), *instants}

    return await service.read(read)


async def may_count(service: Running, flow: str) -> set[datetime]:
    """When what started a run, or is held and still may, came."""

    def read(connection: sa.Connection) -> set[datetime]:
        began = sa.select(runs.c.delivery_id).where(runs.c.workflow_id == flow)
        held = sa.select(holds.c.delivery_id).where(holds.c.workflow_id == flow, holds.c.released_at.is_(None))
        came = sa.select(deliveries.c.received_at).where(deliveries.c.id.in_(began.union(held)))
        return set(connection.execute(came).scalars())

    return await service.read(read)


async def told(service: Running, ids: Sequence[str], flow: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in ids:
        verdicts = (await explained(service.services, PROJECT, one, flow)).verdicts
        found.update(verdict.verdict["stage"] for verdict in verdicts)
    return found


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_brakes=st.fixed_dictionaries({}, optional=dict(BRAKES)), came=ARRIVALS)
async def test_a_forecast_counts_what_a_live_run_over_the_same_deliveries_does(
    service: Running, clock: Clock, given_brakes: Mapping[str, Any], came: Sequence[tuple[int, int, str]]
) -> None:
    clock.go(7200)
    repository = f"acme/{clock.now():%d-%H%M%S}"
    brakes = {f"trigger_{name}": value for name, value in given_brakes.items()}
    document = workflow(repository, log_action("a", "x"), repository=repository, **brakes)
    flow = (await service.create(document)).id
    begun = clock.now()
    clock.go(1)
    ids = await played(service, clock, repository, flow, came)
    live = await told(service, ids, flow)
    if not given_brakes.get("masking", {}).get("threshold"):  # there a window outlives its first match
        assert await counting(service, flow) <= await may_count(service, flow)
    days = (clock.now() - begun) / timedelta(days=1)
    forecast = await service.services.forecasts.document(PROJECT, document, days)
    assert dict(forecast.tally.counts) == dict(live)
    assert forecast.looked.deliveries == len(ids)
    started = sa.select(sa.func.count()).select_from(runs).where(runs.c.workflow_id == flow)
    assert live["start"] == await service.read(lambda connection: connection.execute(started).scalar())
    stored = await service.services.forecasts.stored(PROJECT, flow, days)
    assert dict(stored.tally.counts) == dict(live)
    await service.services.workflows.archive(PROJECT, flow, running="cancel")


def tasked(repository: str, **inputs: Any) -> dict[str, Any]:
    return workflow(repository, task_action(prompt="Look.", inputs=inputs), repository=repository)


async def test_quotas_are_held_against_it_and_what_it_would_have_cost_is_told(service: Running, clock: Clock) -> None:
    clock.go(86_400 * 2)
    begun = clock.now()
    document = tasked("acme/quota")
    for number in range(6):
        clock.go(60)
        await posted(service, issue("acme/quota", number))
    await all_batches(service)
    clock.go(60)
    found = await service.services.forecasts.document(PROJECT, document, (clock.now() - begun) / timedelta(days=1))
    assert (found.tally.counts["start"], found.tally.created) == (6, 4)
    assert dict(found.tally.refused) == {"workflow": 2}
    assert found.basis.cost is None
    first = f"{begun + timedelta(seconds=300):%Y-%m-%d %H:%M:%S} UTC"
    assert warnings(found) == [
        f"it would have reached the workflow's quota of 4 tasks in 24 hours, first at {first}: 2 tasks refused",
        "its cost is not known: no task whose cost is known can be compared with it",
    ]


async def test_a_cost_is_the_median_of_tasks_alike_else_of_the_workflow_else_of_the_project(
    service: Running, clock: Clock
) -> None:
    clock.go(86_400 * 2)
    flow = (await service.create(tasked("acme/costs", model="scripted:a"))).id
    other = (await service.create(tasked("acme/costs-b", model="scripted:b"))).id

    def put(connection: sa.Connection) -> None:
        done = (
            (flow, "scripted:a", 0.10, 60), (flow, "scripted:a", 0.30, 120), (flow, "scripted:a", 5.0, 600),
            (flow, "scripted:a", None, 100), (other, "scripted:b", 9.0, 1000),
        )  # fmt: skip
        for number, (owner, model, cost, seconds) in enumerate(done):
            begun = clock.now() - timedelta(days=30)
            run = f"{owner}-{number}"
            connection.execute(runs.insert().values(_run(run, owner, begun)))
            connection.execute(tasks.insert().values(_task(run, owner, model, cost, begun, seconds)))
        for number in range(9):  # never had a round, so nothing can be said by them
            failed = _task(f"{flow}-failed-{number}", flow, "scripted:a", 0.0, begun, 0.0)
            connection.execute(runs.insert().values(_run(failed["id"], flow, begun)))
            connection.execute(tasks.insert().values({**failed, "status": "failed", "rounds": 0}))

    await service.write(put)
    (delivery,) = [await posted(service, issue("acme/costs"))]
    await all_batches(service)
    clock.go(1)
    costs = []
    for model in ("scripted:a", "scripted:b", "scripted:c"):
        found = await service.services.forecasts.document(PROJECT, tasked("acme/costs", model=model), 0.001)
        assert found.tally.counts["start"] == 1
        costs.append((found.basis.cost, found.basis.cost_words))
    assert costs == [
        (0.30, "the median of 3 tasks with scripted:a, without a repository"),
        (9.0, "the median of 1 task with scripted:b, without a repository"),
        (2.65, "the median of 4 tasks of this project"),
    ]
    assert (found.basis.lasts.total_seconds(), found.basis.lasts_words) == (
        120.0,
        "the median of 5 tasks of this project",
    )
    assert delivery


def _run(run: str, owner: str, at: datetime) -> dict[str, Any]:
    return {
        "id": run, "project_id": PROJECT, "workflow_id": owner, "version": 1, "source": "github", "event_uuid": run,
        "event_name": "e", "replay": 0, "status": "completed", "reason": "", "seq": 0, "restarts": 0, "state": {},
        "cost": 0.0, "created_at": at, "updated_at": at,
    }  # fmt: skip


def _task(run: str, owner: str, model: str, cost: float | None, at: datetime, seconds: float) -> dict[str, Any]:
    return {
        "id": run, "project_id": PROJECT, "workflow_id": owner, "run_id": run, "step_id": "create_task", "key": run,
        "title": "", "status": "completed", "ending": "", "reason": "", "model": model, "request": {}, "seq": 0,
        "restarts": 0, "rounds": 1, "input_tokens": 0, "output_tokens": 0, "cost": cost, "created_at": at,
        "started_at": at, "finished_at": at + timedelta(seconds=seconds), "updated_at": at,
    }  # fmt: skip


async def test_a_subject_that_has_had_its_share_counts_runs_of_other_loops_too(service: Running, clock: Clock) -> None:
    clock.go(86_400)
    begun = clock.now()
    document = workflow("acme/subject", log_action("a", "x"), repository="acme/subject")
    other = (await service.create({**document, "name": "beside"})).id
    clock.go(1)
    ids = []
    for _ in range(5):
        clock.go(1)
        ids.append(await posted(service, issue("acme/subject", 7)))
        await all_batches(service)
    live = await told(service, ids, other)
    assert live == {"start": 3, "subject_limit": 2}
    clock.go(1)
    found = await service.services.forecasts.document(PROJECT, document, (clock.now() - begun) / timedelta(days=0.999))
    assert found.tally.counts == live


async def test_what_debounce_lets_go_is_not_more_than_its_subject_may_start(service: Running, clock: Clock) -> None:
    clock.go(86_400)
    begun = clock.now()
    debounce = {"quiet": 10, "longest": 10, "key": "{event.uuid}"}
    document = workflow("share", log_action("a", "x"), repository="acme/share", trigger_debounce=debounce)
    flow = (await service.create(document)).id
    clock.go(1)
    ids = []
    for _ in range(5):
        ids.append(await posted(service, issue("acme/share", 7)))
        await all_batches(service)
    clock.go(10)
    await all_batches(service)
    live = await told(service, ids, flow)
    assert live == {"start": 3, "subject_limit": 2}
    clock.go(1)
    found = await service.services.forecasts.document(PROJECT, document, (clock.now() - begun) / timedelta(days=0.999))
    assert found.tally.counts == live


async def test_occurrences_of_schedules_count_in_the_period(service: Running, clock: Clock) -> None:
    clock.instant = datetime(2026, 12, 20, 12, 30, tzinfo=UTC)
    document = workflow("report", log_action("a", "x"), trigger_overlap={"policy": "skip"})
    document["actions"][0]["config"] = {"type": "schedule"}
    document["schedules"] = [
        {"rrule": "FREQ=DAILY;INTERVAL=1", "starts_at": "2026-01-01T09:00:00Z", "timezone": "UTC"},
        {"rrule": "FREQ=DAILY;INTERVAL=1", "starts_at": "2026-01-01T09:00:10Z", "timezone": "UTC"},
        {"cron": "0 * * * *", "timezone": "UTC", "status": "paused"},
    ]
    found = await service.services.forecasts.document(PROJECT, document, 7)
    assert found.tally.counts == {"start": 7, "overlap": 7}
    del document["schedules"]
    alone = await service.services.forecasts.document(PROJECT, document, 7)
    assert (dict(alone.tally.counts), alone.notes) == (
        {},
        ("it has no schedule that is active, so nothing starts it",),
    )


async def test_what_cannot_be_looked_at_is_refused_with_its_mend(
    service: Running, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.go(86_400)
    document = workflow("acme/asked", log_action("a", "x"), repository="acme/asked")
    forecasts = service.services.forecasts
    for days in (0, -1, 91):
        with pytest.raises(RequestError, match="days cannot be looked at"):
            await forecasts.document(PROJECT, document, days)
    with pytest.raises(NotFound):
        await forecasts.stored(PROJECT, "nothing", 7)
    await posted(service, issue("acme/asked"))
    monkeypatch.setattr("triggers.forecasting.BUDGET_SECONDS", -1.0)
    clock.go(1)
    with pytest.raises(RequestError, match="took longer than"):
        await forecasts.document(PROJECT, document, 1)


async def test_in_stretches_and_parts_however_short_the_same_comes_of_it(
    service: Running, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.go(86_400)
    begun = clock.now()
    ids = []
    for number in range(5):
        clock.go(60)
        ids.append(await posted(service, issue("acme/far" if number == 2 else "acme/parts", number)))
    clock.go(60)
    document = tasked("acme/parts")
    days = (clock.now() - begun) / timedelta(days=1)
    whole = await service.services.forecasts.document(PROJECT, document, days)
    assert (whole.looked.deliveries, whole.tally.counts) == (5, {"start": 4, "filters": 1})
    monkeypatch.setattr("loops.store.forecasts.STRETCH", 2)
    monkeypatch.setattr("triggers.forecast_hearing.PART", 1)
    found = await service.services.forecasts.document(PROJECT, document, days)
    assert (found.looked, found.tally) == (whole.looked, whole.tally)
    examples = {stage: [one.delivery for one in those] for stage, those in found.tally.examples.items()}
    assert examples == {"start": [ids[1], ids[3], ids[4]], "filters": [ids[2]]}


async def test_a_delivery_that_cannot_be_read_or_means_nothing_is_told_and_stops_nothing(
    service: Running, clock: Clock
) -> None:
    clock.go(86_400)
    broken, _ = await posted(service, issue("acme/odd")), await posted(service, issue("acme/odd", 2))
    await service.write(
        lambda c: c.execute(deliveries.update().where(deliveries.c.id == broken).values(body=b"no zstd"))
    )
    await posted(service, {"zen": "Keep it simple.", "hook_id": 1}, event="star")
    clock.go(1)
    document = workflow("acme/odd", log_action("a", "x"), repository="acme/odd")
    found: Forecast = await service.services.forecasts.document(PROJECT, document, 0.0001)
    assert (found.looked.deliveries, found.looked.unreadable, found.tally.counts["start"]) == (3, 1, 1)
