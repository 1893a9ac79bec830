"""What nobody proved to have sent, beside what somebody did, through the brakes of a loop; on both databases."""

import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from loops.store import connections
from server.app import Wiring
from server.explain import explained
from tests.integration.running import PROJECT, Running, log_action, running, workflow
from tests.integration.tasking import task_action
from tests.integration.test_brakes import passed, told
from tests.integration.test_dispatch import all_batches, batch
from tests.integration.test_masking import Clock

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "a secret of some length"
DEBOUNCE = {"quiet": 10, "longest": 60}


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


class Senders:
    """Two PostHog connections: one for whoever found its address, one for whoever knows a secret."""

    def __init__(self, live: Running, open_hook: int, closed_hook: int) -> None:
        self.live = live
        self.hooks = {False: open_hook, True: closed_hook}

    async def send(self, name: str, *, verified: bool, own: str = "", **properties: Any) -> str:
        """An event, with an id of its `own` where one is given, posted and dispatched: the delivery."""
        own = own or str(uuid.uuid4())
        body = {"event": {"event": name, "distinct_id": "ada", "uuid": own, "properties": properties}}
        url = f"{self.live.service.url}/hooks/posthog/{self.hooks[verified]}"
        headers = {"X-Webhook-Secret": SECRET} if verified else {}
        async with aiohttp.ClientSession() as client, client.post(url, json=body, headers=headers) as answer:
            assert answer.status == 202, await answer.text()
            delivery = str((await answer.json())["delivery"])
        await all_batches(self.live)
        return delivery


def document(name: str, *, writes: bool = False, allow: bool | None = None, **brakes: Any) -> dict[str, Any]:
    step = task_action(prompt="Look", inputs={"repository": "acme/widgets"}) if writes else log_action("task", "x")
    made = workflow(name, step, **{f"trigger_{brake}": value for brake, value in brakes.items()})
    config: dict[str, Any] = {"type": "event", "filters": {"events": [{"id": name, "type": "events"}]}}
    made["actions"][0]["config"] = config if allow is None else {**config, "allow_unverified": allow}
    return made


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def senders(
    module_database_url: str, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Senders]:
    wiring = Wiring(clock=clock, dispatching=False)
    async with running(tmp_path_factory.mktemp("web"), module_database_url, role="web", wiring=wiring) as live:
        hooks = [await connect(live, name, secrets) for name, secrets in (("o", {}), ("c", {"webhook_secret": SECRET}))]
        yield Senders(live, *hooks)


async def connect(live: Running, name: str, secrets: Mapping[str, str]) -> int:
    sealed = live.services.box.seal(dict(secrets))
    row: dict[str, Any] = {
        "project_id": PROJECT,
        "kind": "posthog",
        "name": f"{name}{uuid.uuid4().hex[:6]}",
        "config": {},
    }
    return await live.write(lambda c: connections.insert(c, **row, secrets=sealed, now=live.services.clock.now()))


@pytest.fixture
def name() -> str:
    return f"event_{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize(
    ("before", "after", "stage"),
    [
        ({}, {"writes": True}, "unverified"),
        ({"writes": True, "allow": True}, {"writes": True}, "unverified"),
        ({"writes": True, "allow": True}, {}, "start"),
        ({}, {"writes": True, "allow": True}, "start"),
    ],
)
async def test_what_was_held_unverified_starts_only_what_the_loop_may_do_when_it_goes_on(
    senders: Senders, clock: Clock, name: str, before: dict[str, Any], after: dict[str, Any], stage: str
) -> None:
    live = senders.live
    flow = (await live.create(document(name, **before, debounce=DEBOUNCE))).id
    held = await senders.send(name, verified=False)
    assert (await told(live, held))[0] == "debounce"
    await live.services.workflows.update(PROJECT, flow, document(name, **after, debounce=DEBOUNCE), "test")
    clock.go(10)
    await batch(live)
    came, reason, _ = await told(live, held)
    assert (came, len(await live.runs(flow))) == (stage, stage == "start")
    assert ("nobody proved to have sent the event" in reason) is (stage == "unverified")


BRAKES = {
    "mask": {"masking": {"hash": "{event.event}", "ttl": 3600}},
    "rate limit": {"rate_limit": {"count": 1, "period": 3600}},
    "rate limit without its key": {"rate_limit": {"count": 1, "period": 3600, "key": "{event.properties.none}"}},
    "debounce": {"debounce": DEBOUNCE},
    "overlap": {"overlap": {"policy": "skip"}},
    "restart": {"overlap": {"policy": "restart"}},
    "parallel": {"overlap": {"policy": "parallel", "maximum": 1}},
}


@pytest.mark.parametrize("brakes", BRAKES.values(), ids=BRAKES)
@pytest.mark.parametrize("first", [False, True], ids=["unverified first", "verified first"])
async def test_what_came_unverified_holds_back_ends_and_replaces_nothing_that_came_verified(
    senders: Senders, clock: Clock, name: str, brakes: dict[str, Any], first: bool
) -> None:
    live, begun = senders.live, clock.now()
    made = document(name, **brakes)
    flow = (await live.create(made)).id
    clock.go(1)
    one = await senders.send(name, verified=first)
    other = await senders.send(name, verified=not first)
    more = await senders.send(name, verified=False)
    clock.go(10)
    await batch(live)
    verified, apart = (one, other) if first else (other, one)
    ran = {run["delivery_id"]: run["status"] for run in await live.runs(flow)}
    assert ran[verified] == "queued"
    # Among themselves they are braked as ever.
    kept = [delivery for delivery in (apart, more) if ran.get(delivery) == "queued"]
    assert len(kept) == 1
    clock.go(1)
    days = (clock.now() - begun) / timedelta(days=0.999)
    forecast = await live.services.forecasts.document(PROJECT, made, days)
    counts = Counter([(await told(live, delivery))[0] for delivery in (verified, apart, more)])
    assert forecast.tally.counts == counts


STOPS = {
    "mask": ({"masking": {"hash": "{event.event}", "ttl": 3600}}, "mask"),
    "rate limit": ({"rate_limit": {"count": 1, "period": 3600}}, "rate_limit"),
    "overlap": ({"overlap": {"policy": "skip"}}, "overlap"),
    "a full queue": ({"overlap": {"policy": "queue", "maximum": 1}}, "overlap"),
}


@pytest.mark.parametrize(("brakes", "stage"), STOPS.values(), ids=STOPS)
async def test_what_came_unverified_and_was_stopped_takes_no_fact_from_the_verified_event(
    senders: Senders, clock: Clock, name: str, brakes: dict[str, Any], stage: str
) -> None:
    live, own = senders.live, str(uuid.uuid4())
    clock.go(60)
    begun = clock.now()
    made = document(name, **brakes)
    flow = (await live.create(made)).id
    clock.go(1)
    before = [await senders.send(name, verified=False) for _ in range(2 if "queue" in str(brakes) else 1)]
    stopped = await senders.send(name, verified=False, own=own)
    assert (await told(live, stopped))[0] == stage
    verified = await senders.send(name, verified=True, own=own)
    came = [(await told(live, one))[0] for one in (*before, verified)]
    assert came == ["start"] * len(came)
    assert len(await live.runs(flow)) == len(came)
    clock.go(1)
    forecast = await live.services.forecasts.document(PROJECT, made, (clock.now() - begun) / timedelta(days=0.999))
    assert forecast.tally.counts == {"start": len(came), stage: 1}


async def test_what_is_held_unverified_gives_way_to_the_verified_event(
    senders: Senders, clock: Clock, name: str
) -> None:
    live, own = senders.live, str(uuid.uuid4())
    clock.go(60)
    begun = clock.now()
    made = document(name, debounce=DEBOUNCE, rate_limit={"count": 5, "period": 3600})
    flow = (await live.create(made)).id
    clock.go(1)
    held = await senders.send(name, verified=False, own=own, amount=1)
    clock.go(1)
    verified = await senders.send(name, verified=True, own=own, amount=2)
    clock.go(10)
    await batch(live)
    (run,) = await live.runs(flow)
    assert (run["delivery_id"], await passed(live, flow)) == (verified, 1)
    assert (await live.delivery(held))["reason"] == "stopped by claim once debounce let it go"
    assert (await live.delivery(verified))["reason"] == "started once debounce let it go"
    clock.go(1)
    forecast = await live.services.forecasts.document(PROJECT, made, (clock.now() - begun) / timedelta(days=0.999))
    assert forecast.tally.counts == {"start": 1, "claim": 1}


@pytest.mark.parametrize("waits", [False, True], ids=["started", "waits for its turn"])
async def test_what_started_a_run_unverified_is_a_fact_that_was_taken(senders: Senders, name: str, waits: bool) -> None:
    live, own = senders.live, str(uuid.uuid4())
    flow = (await live.create(document(name, overlap={"policy": "queue", "maximum": 3}))).id
    if waits:
        await senders.send(name, verified=False)
    first = await senders.send(name, verified=False, own=own)
    second = await senders.send(name, verified=True, own=own)
    assert (await told(live, second))[:2] == ("claim", f"the same fact came before, in delivery {first}")
    assert len(await live.runs(flow)) == 1 + waits
    note = (await explained(live.services, PROJECT, first)).note
    assert f"the same event came again verified, in delivery {second}" in note


async def test_who_leaves_out_the_property_that_a_loop_is_braked_by_is_held_back_all_the_same(
    senders: Senders, name: str
) -> None:
    live = senders.live
    await live.create(document(name, rate_limit={"count": 1, "period": 3600, "key": "{event.properties.who}"}))
    came = [await senders.send(name, verified=False, **more) for more in ({"who": "a"}, {}, {"who": None}, {"who": ""})]
    assert [(await told(live, one))[0] for one in came] == ["start", "start", "rate_limit", "rate_limit"]
    reason = (await told(live, came[3]))[1]
    assert "(all that have none count together, its key is empty; of unverified events)" in reason


async def test_what_was_held_verified_starts_what_the_loop_has_become(
    senders: Senders, clock: Clock, name: str
) -> None:
    live = senders.live
    flow = (await live.create(document(name, debounce=DEBOUNCE))).id
    held = await senders.send(name, verified=True)
    await live.services.workflows.update(PROJECT, flow, document(name, writes=True, debounce=DEBOUNCE), "test")
    clock.go(10)
    await batch(live)
    assert ((await told(live, held))[0], [run["version"] for run in await live.runs(flow)]) == ("start", [2])
