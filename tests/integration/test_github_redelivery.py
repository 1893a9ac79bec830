"""Deliveries that GitHub could not hand over: found in its lists, asked for again, and taken once."""

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from loops.connections.github import GitHubClients
from loops.ports import DeliveryRow
from loops.store import connections
from loops.store import github as store
from loops.store.columns import to_micros
from loops.store.database import Database, open_database
from loops.store.github import SeenName
from loops.store.ids import new_id
from loops.threads import off_loop
from tests.doubles.github import TOKEN, GitHubDouble, github, says
from tests.doubles.site import SetClock
from tests.integration.github_loops import REPOSITORY, comment, connected, listening, sent
from tests.integration.running import Running, eventually, running
from tests.integration.test_github_client import BOX
from triggers.redelivery import Redelivery

PUBLIC = "https://loops.example.org"


@pytest.fixture
async def hub() -> AsyncIterator[GitHubDouble]:
    async with github() as double:
        yield double


class Bench:
    """A database with connections, and what looks after their hooks."""

    def __init__(self, database: Database, hub: GitHubDouble) -> None:
        self.database, self.hub, self.clock = database, hub, SetClock()
        self.clock.time = datetime.now(UTC)
        self.clients = GitHubClients(BOX)
        self.counted: list[tuple[str, int]] = []
        self.redelivery = self.anew()

    def anew(self) -> Redelivery:
        """As after a restart."""
        return Redelivery(
            self.clients,
            self.database.reader,
            self.clock,
            lambda: PUBLIC,
            lambda outcome, count: self.counted.append((outcome, count)),
        )

    async def connect(self, settings: dict[str, str], name: str = "work") -> int:
        config = {key: value for key, value in settings.items() if key == "api_base_url"}
        sealed = BOX.seal({key: value for key, value in settings.items() if key not in config})
        return await self.database.writer.run(
            lambda connection: connections.insert(
                connection, project_id="default", kind="github", name=name, config=config, secrets=sealed,
                now=self.clock.now(),
            )
        )  # fmt: skip

    async def has_heard_of(self, connection_id: int, name: str = REPOSITORY, number: int = 1) -> None:
        seen = [SeenName(connection_id, number, name)]
        await self.database.writer.run(lambda connection: store.keep_names(connection, seen, self.clock.now()))

    async def accepted(self, connection_id: int, key: str) -> None:
        row = DeliveryRow(
            new_id(), "default", connection_id, "github", key, "issues", None, to_micros(self.clock.now()), True,
            "ignored", "", "{}", b"{}", 2,
        )  # fmt: skip
        await self.database.writer.accept(row)

    async def look(self) -> int:
        return await self.redelivery.once()

    async def later(self, **span: float) -> int:
        self.clock.forward(timedelta(**span))
        return await self.look()


@pytest.fixture
async def bench(database_url: str, hub: GitHubDouble) -> AsyncIterator[Bench]:
    database = await off_loop(lambda: open_database(database_url))
    made = Bench(database, hub)
    yield made
    made.clients.close()
    await database.aclose()


def hook(number: int, url: str) -> dict[str, Any]:
    return {"id": number, "active": True, "events": ["*"], "config": {"url": url, "content_type": "json"}}


async def test_what_an_app_could_not_deliver_is_asked_for_oldest_first(bench, hub):
    await bench.connect(hub.app_settings())
    hub.failed(1, "a", 502)
    hub.failed(2, "b", 200)
    hub.failed(3, "c", 0)
    hub.failed(4, "d", 401)
    assert await bench.look() == 3
    assert hub.attempts == [1, 3, 4]
    assert bench.counted == [("asked", 3)]


async def test_what_arrived_in_the_end_or_can_never_arrive_is_left(bench, hub):
    number = await bench.connect(hub.app_settings())
    hub.failed(1, "again", 502)
    hub.failed(2, "again", 202)
    hub.failed(3, "malformed", 400)
    hub.failed(4, "too large", 413)
    hub.failed(5, "stored", 504)
    await bench.accepted(number, "stored")
    assert await bench.look() == 0
    assert hub.attempts == []


async def test_the_last_attempt_of_a_delivery_is_the_one_that_is_repeated_once(bench, hub):
    await bench.connect(hub.app_settings())
    hub.failed(1, "a", 502)
    hub.failed(2, "a", 502)
    assert await bench.look() == 1
    assert hub.attempts == [2]


async def test_what_fails_again_is_asked_for_after_longer_and_longer_waits(bench, hub):
    await bench.connect(hub.app_settings())
    hub.failed(1, "a", 502)
    assert [await bench.look()] + [await bench.later(minutes=10) for _ in range(7)] == [1, 1, 0, 1, 0, 0, 0, 1]


async def test_what_is_older_than_github_keeps_it_is_forgotten(bench, hub):
    await bench.connect(hub.app_settings())
    hub.failed(1, "a", 502, ago=timedelta(days=4))
    hub.failed(2, "b", 502, ago=timedelta(days=2))
    assert await bench.look() == 1
    assert hub.attempts == [2]
    assert await bench.later(days=2) == 0


async def test_after_a_restart_all_of_three_days_are_read_and_later_only_what_is_new(bench, hub):
    await bench.connect(hub.app_settings())
    hub.page = 10
    for number in range(35):
        hub.failed(number, f"g{number}", 200, ago=timedelta(hours=40 - number))
    await bench.look()
    assert hub.calls["list"] == 4
    await bench.later(minutes=10)
    assert hub.calls["list"] == 5
    bench.redelivery = bench.anew()
    await bench.look()
    assert hub.calls["list"] == 9


async def test_at_most_fifty_are_asked_for_at_once_and_the_rest_next_time(bench, hub):
    await bench.connect(hub.app_settings())
    for number in range(60):
        hub.failed(number, f"g{number}", 502)
    assert [await bench.look(), await bench.later(seconds=1)] == [50, 10]


async def test_the_hook_of_a_repository_is_the_one_that_leads_here(bench, hub):
    number = await bench.connect(hub.token_settings())
    await bench.has_heard_of(number)
    hub.failed(1, "a", 502)
    path = f"/hooks/github/{number}"
    for listed, asked in (
        ([hook(5, "https://elsewhere.example.org/x"), hook(6, f"{PUBLIC}{path}")], 1),
        ([hook(6, f"https://tunnel.example.org{path}/")], 1),
        ([hook(6, f"https://a.example.org{path}"), hook(7, f"https://b.example.org{path}")], 0),
        ([hook(6, f"https://a.example.org{path}"), hook(7, f"{PUBLIC}{path}")], 1),
        ([hook(6, f"{PUBLIC}/hooks/github/{number}9")], 0),
        ([{"id": 6}], 0),
    ):
        hub.hooks[REPOSITORY] = listed
        bench.redelivery = bench.anew()
        assert await bench.look() == asked, listed


async def test_a_connection_without_credentials_is_left_alone(bench, hub):
    await bench.connect({"api_base_url": hub.url, "webhook_secret": "s"})
    assert await bench.look() == 0
    assert sum(hub.calls.values()) == 0


async def test_a_repository_that_the_token_may_not_see_does_not_stop_the_others(bench, hub):
    number = await bench.connect(hub.token_settings())
    await bench.has_heard_of(number, "acme/secret", 2)
    await bench.has_heard_of(number)
    hub.hooks[REPOSITORY] = [hook(6, f"{PUBLIC}/hooks/github/{number}")]
    hub.failed(1, "a", 502)
    assert await bench.look() == 1


async def test_a_connection_that_cannot_is_told_once_and_does_not_stop_the_others(bench, hub, caplog):
    await bench.connect({**hub.token_settings(), "token": "ghp_old"}, "broken")
    broken = (await bench.database.reader.read(lambda c: connections.of_kind(c, "github")))[0].id
    await bench.has_heard_of(broken)
    hub.hooks[REPOSITORY] = []
    await bench.connect(hub.app_settings(), "good")
    hub.failed(1, "a", 502)
    with caplog.at_level(logging.INFO, "loops.redelivery"):
        assert await bench.look() == 1
        await bench.later(minutes=10)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 1
    assert "status 401: Bad credentials" in told[0]
    assert "present token" in told[0]
    assert TOKEN not in caplog.text


async def test_below_five_hundred_calls_left_nothing_is_asked_for_again(bench, hub):
    await bench.connect(hub.app_settings())
    hub.failed(1, "a", 502)
    hub.remaining = 499
    assert await bench.look() == 0
    hub.remaining = 4999
    assert await bench.later(minutes=10) == 1


async def test_github_that_is_not_there_is_no_reason_to_stop(bench, hub):
    await bench.connect({**hub.app_settings(), "api_base_url": "http://127.0.0.1:1"})
    assert await bench.look() == 0


async def test_lists_that_are_no_lists_are_read_as_empty(bench, hub):
    await bench.connect(hub.app_settings())
    hub.deliveries = [{"id": 1}, {"guid": "a"}, {"id": "1", "guid": "a", "delivered_at": "never"}, {}]
    assert await bench.look() == 0


async def test_d42_what_failed_while_the_service_was_away_arrives_after_its_start_and_once(database_url, tmp_path, hub):
    """From the outage to the run: the double hands the delivery over when it is asked to."""
    async with running(tmp_path / "a", database_url, role="web") as before:
        live = await connected(before, hub)
        flow = (await live.create(listening())).id
        await sent(live, comment())
    hub.failed(5, "0ab5c2f0-ce1c-11f0-8de9-0242ac120002", 502)
    hub.hooks[REPOSITORY] = [hook(6, f"https://tunnel.example.org/hooks/github/{live.hook}")]
    async with running(tmp_path / "b", database_url) as after:
        await eventually(lambda: _attempts(hub), lambda attempts: attempts == [5])
        again = Running(after.service, live.hook)
        for _ in range(2):
            await again.post(comment(), event="issue_comment", key="0ab5c2f0-ce1c-11f0-8de9-0242ac120002")
        await eventually(lambda: after.runs(flow), lambda runs: len(runs) == 2)
        body, _ = after.service.metrics.render()
        assert b'loops_redeliveries_total{outcome="asked"} 1.0' in body


async def _attempts(hub: GitHubDouble) -> list[int]:
    return hub.attempts


async def test_a_redelivery_that_is_refused_is_counted_and_tried_later(bench, hub):
    await bench.connect(hub.app_settings())
    hub.failed(1, "a", 502)
    hub.attempt_fault = says(500, {"message": "oops"})
    assert await bench.look() == 0
    assert bench.counted == [("refused", 1)]
    hub.attempt_fault = None
    assert await bench.later(minutes=10) == 1
