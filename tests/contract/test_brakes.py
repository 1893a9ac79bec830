"""Brakes over their tables, on SQLite and on Postgres: the same histories as the pure decisions."""

import itertools
import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from loops.errors import RowHeld
from loops.runs.state import RunState
from loops.runs.succession import run_ended
from loops.store import holds, overlaps, rates, run_requests
from loops.store.brake_tables import holds as hold_table
from loops.store.database import engine_for
from loops.store.deliveries import Due
from loops.store.holds import HoldRow
from loops.store.overlaps import Place
from loops.store.runs import NewRun
from loops.store.tables import runs
from tests.unit.triggers.brake_machine import BY_KEY, START, Brakes, How, event
from triggers import mask_stage
from triggers.brake_stages import Wanted, put_off, within_limit
from triggers.brakes import Debounce, KeyOf, OverlapRule, RateLimit
from triggers.counted import Counted, counted_of
from triggers.giving_back import give_back
from triggers.keys import Key
from triggers.masking import Mask, Rule
from triggers.overlap_stage import Admitted, Starting

_flows = itertools.count(1)


class Queue:
    """The engine, as far as starting goes."""

    def __init__(self) -> None:
        self.queued: list[str] = []

    def enqueue(self, connection: sa.Connection, run_id: str, seq: int, *, delay: float = 0.0) -> None:
        assert run_id not in self.queued, "a run begins once"
        self.queued.append(run_id)

    def enqueue_task(self, connection: sa.Connection, task_id: str, seq: int) -> None:
        raise AssertionError

    async def wake(self, run_id: str, seq: int) -> None:
        raise AssertionError

    async def drop(self, run_id: str, seq: int) -> None:
        raise AssertionError


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    made = engine_for(database_url)
    yield made
    made.dispose()


def arrival(delivery: str, now: datetime) -> Due:
    return Due(delivery, "default", 1, "github", delivery, "issues", None, now, 3, True, 0)


class Stored:
    """The stages over tables: each call is a transaction of its own, as if another process did it."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.flow = f"flow-{next(_flows)}"
        self.queue = Queue()
        self.starting = Starting(self.queue)

    def masked(self, mask: Mask, key: str, now: datetime) -> tuple[Counted, ...]:
        with self.engine.begin() as connection:
            return self._kept(mask_stage.hold(connection, self.flow, mask, event(key), now).counted)

    def limited(self, rule: RateLimit, key: str, now: datetime) -> tuple[Counted, ...]:
        with self.engine.begin() as connection:
            return self._kept(within_limit(connection, self.flow, rule, event(key), now).counted)

    def _kept(self, counted: tuple[Counted, ...]) -> tuple[Counted, ...]:
        """As it comes back from where debounce stores it."""
        stored = json.loads(json.dumps([one.as_json() for one in counted]))
        assert counted_of(stored) == counted
        return counted

    def give_back(self, counted: tuple[Counted, ...], now: datetime) -> None:
        with self.engine.begin() as connection:
            give_back(connection, self.flow, counted, now)

    def hold(self, rule: Debounce, key: str, name: str, now: datetime) -> list[tuple[str, int]]:
        wanted, went = Wanted(self.flow, 1, "github", name, ""), []
        with self.engine.begin() as connection:
            came = put_off(connection, rule, wanted, arrival(f"d-{name}", now), event(key))
            while isinstance(came, HoldRow):
                went += self._gone(connection, came, now)
                came = put_off(connection, rule, wanted, arrival(f"d-{name}", now), event(key))
        assert not came.passes
        return went

    def _gone(self, connection: sa.Connection, row: HoldRow, now: datetime) -> list[tuple[str, int]]:
        assert holds.release(connection, row.id, now, None)
        assert not holds.release(connection, row.id, now, None), "it goes on once"
        assert row.delivery_id == f"d-{row.event_uuid}"
        return [(row.event_uuid, row.count)]

    def release(self, now: datetime) -> list[tuple[str, int]]:
        with self.engine.begin() as connection:
            due = [row for row in holds.due(connection, now, 100) if row.workflow_id == self.flow]
            return [one for row in due for one in self._gone(connection, row, now)]

    def ask(self, rule: OverlapRule, key: str, run: str, now: datetime) -> tuple[How, set[str]]:
        name = f"{self.flow}/{run}"
        with self.engine.begin() as connection:
            before = {*self._open(connection)}
            admitted = self.starting.admitted(connection, self.flow, rule, event(key), now)
            over = {one.split("/")[1] for one in before - {*self._open(connection)}}
            if not admitted.passes:
                return "drop", over
            self.starting.begin(connection, new_run(name, self.flow), admitted, now)
        return ("wait" if admitted.waits_for else "start"), over

    def _open(self, connection: sa.Connection) -> list[str]:
        query = sa.select(runs.c.id).where(runs.c.workflow_id == self.flow, runs.c.status != "cancelled")
        return list(connection.execute(query.where(runs.c.status != "completed")).scalars())

    def act(self, run: str) -> None:
        with self.engine.begin() as connection:
            name = f"{self.flow}/{run}"
            assert name in self.queue.queued
            connection.execute(runs.update().where(runs.c.id == name).values(status="running"))

    def end(self, run: str, now: datetime) -> None:
        with self.engine.begin() as connection:
            name = f"{self.flow}/{run}"
            connection.execute(runs.update().where(runs.c.id == name).values(status="completed"))
            run_ended(connection, self.queue, name, now)

    def cancel(self, run: str, now: datetime) -> None:
        with self.engine.begin() as connection:
            name = f"{self.flow}/{run}"
            run_requests.request_cancel(connection, name, now, lambda _connection, _wait: True)
            run_ended(connection, self.queue, name, now)

    def under_way(self, key: str) -> tuple[list[str], list[str]]:
        found = KeyOf(BY_KEY, "trigger_overlap").of(event(key), START)
        assert isinstance(found, Key)
        with self.engine.begin() as connection:
            both = overlaps.try_hold(connection, Place(self.flow, found.digest))
        acting, waiting = ([run.split("/")[1] for run in some] for some in (both.acting, both.waiting))
        return acting, waiting


def new_run(name: str, flow: str) -> NewRun:
    return NewRun(name, "default", flow, 1, "github", name, "e", None, 0, RunState("a"))


def test_any_history_is_braked_as_promised(engine: sa.Engine):
    class InTables(Brakes):
        def make(self) -> Stored:
            return Stored(engine)

    few = 4 if engine.dialect.name == "postgresql" else 12
    run_state_machine_as_test(InTables, settings=settings(max_examples=few, stateful_step_count=25))


@pytest.mark.postgres
def test_who_decides_on_a_key_makes_others_come_back_and_not_wait(postgres_url: str):
    engine = engine_for(postgres_url)
    rule = OverlapRule("skip", 1, KeyOf(BY_KEY, "trigger_overlap"))
    limit = RateLimit(1, START - START.replace(hour=11), KeyOf(BY_KEY, "trigger_rate_limit"))
    debounce = Debounce(limit.period, limit.period, KeyOf(BY_KEY, "trigger_debounce"))
    starting = Starting(Queue())
    with engine.connect() as one, engine.connect() as other:
        starting.begin(one, new_run("r1", "f"), starting.admitted(one, "f", rule, event("a"), START), START)
        within_limit(one, "f", limit, event("a"), START)
        put_off(one, debounce, Wanted("f", 1, "github", "e1", ""), arrival("d1", START), event("a"))
        for decide in (
            lambda: starting.admitted(other, "f", rule, event("a"), START),
            lambda: within_limit(other, "f", limit, event("a"), START),
            lambda: put_off(other, debounce, Wanted("f", 1, "github", "e2", ""), arrival("d2", START), event("a")),
        ):
            with pytest.raises(RowHeld), other.begin_nested():
                decide()
        assert starting.admitted(other, "f", rule, event("b"), START).passes
        other.rollback()
        one.commit()
        assert not starting.admitted(other, "f", rule, event("a"), START).passes
        assert rates.lock(other, "f", limit.key.of(event("a"), START).digest) == (START,)
        count = sa.select(sa.func.count()).select_from(hold_table)
        assert other.execute(count).scalar() == 1
    engine.dispose()


@pytest.mark.postgres
def test_who_gives_back_does_not_wait_for_who_decides_on_the_same(postgres_url: str):
    engine, hour = engine_for(postgres_url), timedelta(hours=1)
    limit, mask = RateLimit(1, hour, KeyOf(BY_KEY, "trigger_rate_limit")), Mask(BY_KEY, Rule(hour))
    with engine.begin() as connection:
        counted = within_limit(connection, "f", limit, event("a"), START).counted
        counted += mask_stage.hold(connection, "f", mask, event("a"), START).counted
    with engine.connect() as one, engine.connect() as other:
        give_back(one, "f", counted, START)
        for count in counted:
            with pytest.raises(RowHeld), other.begin_nested():
                give_back(other, "f", [count], START)
        other.rollback()
        one.commit()
        give_back(other, "f", counted, START)  # nothing is left of it
        assert within_limit(other, "f", limit, event("a"), START).passes
        assert mask_stage.hold(other, "f", mask, event("a"), START).passes
    engine.dispose()


@pytest.mark.postgres
def test_of_two_runs_that_end_at_once_one_lets_the_next_begin(postgres_url: str):
    engine, queue = engine_for(postgres_url), Queue()
    starting, place = Starting(queue), Place("f", "d")
    with engine.begin() as connection:
        for name, waits in (("r1", None), ("r2", None), ("r3", "r1")):
            starting.begin(connection, new_run(name, "f"), Admitted(True, "", place, waits), START)
    with engine.connect() as one, engine.connect() as other:
        overlaps.leave(one, "r1")
        overlaps.leave(other, "r2")
        assert overlaps.next_waiting(one, place) is None  # the other is not known to be over yet
        one.commit()
        assert overlaps.next_waiting(other, place) == "r3"
        other.rollback()
    engine.dispose()
