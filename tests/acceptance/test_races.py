"""Two services, each a process of its own, on one Postgres: whatever both are told at once happens as often as if one
had been told."""

import asyncio
import random
import signal
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.store import connections
from loops.store.brake_tables import holds
from loops.store.people_tables import persons
from loops.store.tables import deliveries
from server.app import Wiring
from tests.conftest import new_postgres
from tests.integration import slack_loops
from tests.integration.github_loops import comment, exact
from tests.integration.running import (
    PROJECT,
    Running,
    delay_action,
    eventually,
    issue,
    log_action,
    running,
    settings_for,
    signed,
    workflow,
)
from tests.integration.tasking import task_action
from tests.integration.test_cli import Cli, Served
from tests.integration.test_task_quotas import results, used

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.postgres]

KEY = "phc_races"
MEMBERS = ["ada", "bob", "cy", "dan", "eve"]


class Both:
    """Two services, and a third process that saves workflows and looks at what became of everything, but takes part
    in nothing."""

    def __init__(self, here: Running, addresses: Sequence[str], logs: Sequence[Path]) -> None:
        self.here = here
        self.addresses = addresses
        self.logs = logs
        self._client = aiohttp.ClientSession()

    async def aclose(self) -> None:
        await self._client.close()

    async def send(self, process: int, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, Any]:
        url = f"{self.addresses[process % 2]}{path}"
        async with self._client.post(url, data=body, headers=headers) as response:
            return response.status, await response.json()

    async def github(self, process: int, payload: Mapping[str, Any], key: str = "", event: str = "issues") -> str:
        """Deliver to one of the two; our id of it."""
        body, headers = signed(payload, key or str(uuid.uuid4()), event)
        status, told = await self.send(process, f"/hooks/github/{self.here.hook}", body, headers)
        assert status in {200, 202}, told
        return str(told["delivery"])

    async def settled(self) -> None:
        """All is dispatched, and nothing had to be tried again."""
        left = sa.select(sa.func.count()).where(deliveries.c.status == "accepted")
        await eventually(lambda: self.here.read(lambda c: c.execute(left).scalar_one()), lambda count: count == 0)
        again = sa.select(deliveries.c.id, deliveries.c.reason).where(deliveries.c.attempts > 0)
        assert await self.here.read(lambda c: c.execute(again).all()) == []

    async def runs(self, flow: str) -> Sequence[Mapping[str, Any]]:
        await self.settled()
        return await self.here.runs(flow)

    async def stages(self, sent: Sequence[str], flow: str) -> Counter[str]:
        """At which stage a loop's events were decided."""
        told = [verdict for one in sent for verdict in await self.here.verdicts(one)]
        return Counter(verdict["stage"] for verdict in told if verdict["workflow"] == flow)


@asynccontextmanager
async def serving(folder: Path, url: str) -> AsyncIterator[Served]:
    """A service as a person starts it."""
    environment = {
        "LOOPS_DATA_DIR": str(folder),
        "LOOPS_DATABASE_URL": url,
        "LOOPS_SECRET_KEY": settings_for(folder, url).secret_keys[0],
        "LOOPS_PORT": "0",
        "LOOPS_DRAIN_SECONDS": "0",
        "LOOPS_LOG_LEVEL": "warning",
        "LOOPS_MODEL": "scripted:demo",
    }
    served = await asyncio.to_thread(Served, Cli(folder, **environment))
    try:
        yield served
    finally:
        served.process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(served.process.wait, 30)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(
    postgres_server: Any, postgres_template: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Both]:
    async with AsyncExitStack() as stack:
        url = stack.enter_context(new_postgres(postgres_server, postgres_template))
        wiring = Wiring(dispatching=False)
        here = await stack.enter_async_context(running(tmp_path_factory.mktemp("here"), url, role="web", wiring=wiring))
        starting = (stack.enter_async_context(serving(tmp_path_factory.mktemp(name), url)) for name in ("one", "two"))
        started = await asyncio.gather(*starting)
        made = Both(here, [one.url for one in started], [one.output for one in started])
        stack.push_async_callback(made.aclose)
        yield made


def listening(name: str, **more: Any) -> dict[str, Any]:
    """A loop that hears whatever happens to the issues of a repository."""
    document = workflow(name, log_action("note", "noted"), repository=name, **more)
    del document["actions"][0]["config"]["filters"]["properties"][2]
    return document


async def test_gh_14_one_delivery_that_both_get_is_one_delivery_and_one_run(both: Both) -> None:
    flow = (await both.here.create(listening("acme/twice"))).id
    payload, key = issue("acme/twice"), str(uuid.uuid4())
    told = await asyncio.gather(*(both.github(number, payload, key) for number in range(20)))
    assert len(set(told)) == 1
    (run,) = await both.runs(flow)
    assert run["delivery_id"] == told[0]
    await both.here.until(run["id"], "completed")
    stored = sa.select(sa.func.count()).where(deliveries.c.key == key)
    assert await both.here.read(lambda c: c.execute(stored).scalar_one()) == 1


async def test_gh_15_gh_25_of_two_deliveries_of_one_fact_one_starts_a_run(both: Both) -> None:
    flow = (await both.here.create(listening("acme/fact"))).id
    facts = [issue("acme/fact", number) for number in range(10)]
    sending = []
    for number, fact in enumerate(facts):
        sending += [both.github(number, fact), both.github(number + 1, {**fact, "action": "labeled"})]
    sent = await asyncio.gather(*sending)
    assert len(await both.runs(flow)) == 10
    assert await both.stages(sent, flow) == {"start": 10, "claim": 10}


async def test_sl_04_sl_05_a_message_and_its_mention_told_to_both_again_and_again_start_one_run(both: Both) -> None:
    channel = "C0RACES"
    hook = await slack_loops.connect(both.here, channel, signing_secret=slack_loops.SECRET)
    flow = (await both.here.create(slack_loops.listening("slack", channel))).id
    bodies = [
        slack_loops.encoded(slack_loops.post(f"Ev{name}", "1793610000.000100", name, channel=channel))
        for name in ("message__mention", "app_mention__plain")
    ]
    sending = [
        both.send(number, f"/hooks/slack/{hook}", bodies[number // 2 % 2], slack_loops.signed(bodies[number // 2 % 2]))
        for number in range(16)
    ]
    answers = await asyncio.gather(*sending)
    assert Counter(status for status, _ in answers) == {202: 2, 200: 14}
    assert len(await both.runs(flow)) == 1


@pytest.mark.parametrize(("masking", "fires"), [({"ttl": 3600}, 1), ({"ttl": 3600, "threshold": 4}, 6)], ids=str)
async def test_mq_08_a_hash_that_both_count_fires_as_often_as_if_one_counted(
    both: Both, masking: dict[str, int], fires: int
) -> None:
    name = f"acme/mask-{fires}"
    flow = (await both.here.create(listening(name, trigger_masking={"hash": "all", **masking}))).id
    sent = await asyncio.gather(*(both.github(number, issue(name, number)) for number in range(24)))
    assert len(await both.runs(flow)) == fires
    assert await both.stages(sent, flow) == {"start": fires, "mask": 24 - fires}


BRAKES = [
    ({"trigger_rate_limit": {"count": 5, "period": 3600}}, {"start": 5, "rate_limit": 19}, 5),
    ({"trigger_overlap": {"policy": "skip"}}, {"start": 1, "overlap": 23}, 1),
    ({"trigger_overlap": {"policy": "queue", "maximum": 3}}, {"start": 4, "overlap": 20}, 4),
    ({"trigger_overlap": {"policy": "parallel", "maximum": 3}}, {"start": 3, "overlap": 21}, 3),
]


@pytest.mark.parametrize(("brake", "stages", "count"), BRAKES, ids=str)
async def test_gh_15_what_both_decide_at_once_on_one_key_comes_to_what_one_would_decide(
    both: Both, brake: dict[str, Any], stages: dict[str, int], count: int
) -> None:
    name = f"acme/brake-{uuid.uuid4().hex[:8]}"
    held = workflow(name, delay_action("wait", "1h"), repository=name, **brake)
    flow = (await both.here.create(held)).id
    sent = await asyncio.gather(*(both.github(number, issue(name, number)) for number in range(24)))
    assert len(await both.runs(flow)) == count
    assert await both.stages(sent, flow) == stages
    await both.here.services.workflows.disable(PROJECT, flow, running="cancel")
    assert {run["status"] for run in await both.runs(flow)} == {"cancelled"}


async def test_of_what_both_hold_for_one_key_one_goes_on_once(both: Both) -> None:
    debounce = {"quiet": 1, "longest": 2, "key": "{event.properties.action}"}
    flow = (await both.here.create(listening("acme/debounce", trigger_debounce=debounce))).id
    sent = await asyncio.gather(*(both.github(n, issue("acme/debounce", n)) for n in range(24)))
    await both.settled()
    query = sa.select(sa.func.count()).where(holds.c.workflow_id == flow, holds.c.released_at.is_(None))
    await eventually(lambda: both.here.read(lambda c: c.execute(query).scalar_one()), lambda count: count == 0)
    stages = await both.stages(sent, flow)
    found = await both.runs(flow)
    assert stages == {"start": len(found), "debounce": 24 - len(found)}
    assert 1 <= len(found) <= 3
    assert len({run["delivery_id"] for run in found}) == len(found)


async def test_gh_21_events_of_one_subject_start_ten_runs_between_both_and_in_their_order(both: Both) -> None:
    document = listening("acme/widgets")
    document["actions"][0]["config"]["filters"]["properties"][1] = exact("event_type", "issue_comment")
    flow = (await both.here.create(document)).id
    bot = {"login": "other[bot]", "type": "Bot"}
    payloads = [comment("other[bot]", sender=bot, issue__number=77) for _ in range(30)]
    send = [both.github(n, one, event="issue_comment") for n, one in enumerate(payloads)]
    first = await asyncio.gather(*send[:10])  # of what comes at once neither is the first
    told = [*first, *await asyncio.gather(*send[10:])]
    found = await both.runs(flow)
    assert await both.stages(told, flow) == {"start": 10, "subject_limit": 20}
    assert {run["delivery_id"] for run in found} == {*first}


async def test_mq_03_gh_27_of_twenty_tasks_that_both_ask_for_at_once_five_fit_the_quota(both: Both) -> None:
    step = task_action(inputs={"max_parallel_tasks": 100, "non_failure_status_codes": [409]})
    document = workflow("busy", step, repository="acme/busy")
    document["actions"][0]["config"]["filters"]["properties"][2]["value"] = ["labeled"]
    flow = (await both.here.create(document)).id
    await used(both.here, flow, 95, both.here.services.clock.now() - timedelta(hours=1))
    payloads = [{**issue("acme/busy", number), "action": "labeled"} for number in range(20)]
    await asyncio.gather(*(both.github(number, payload) for number, payload in enumerate(payloads)))
    found = [one["result"] for one in await results(both.here, flow)]
    assert Counter(one["status"] for one in found) == {"completed": 5, "skipped": 15}


def setting(who: str, key: str) -> dict[str, Any]:
    told = {"event": "$set", "distinct_id": who, "uuid": str(uuid.uuid4())}
    return {**told, "properties": {"$set": {key: 1}}}


async def test_persons_whom_batches_for_both_speak_of_lose_nothing_and_stop_nobody(both: Both) -> None:
    sealed, now = both.here.services.box.seal({"api_key": KEY}), both.here.services.clock.now()
    await both.here.write(
        lambda c: connections.insert(
            c, project_id=PROJECT, kind="posthog", name="app", config={}, secrets=sealed, now=now
        )
    )
    shuffled = random.Random(7)
    batches = [[setting(who, f"k{number}") for who in shuffled.sample(MEMBERS, len(MEMBERS))] for number in range(24)]
    bodies = [slack_loops.encoded({"api_key": KEY, "batch": batch}) for batch in batches]
    answers = await asyncio.gather(*(both.send(n, "/batch/", body, {}) for n, body in enumerate(bodies)))
    assert {status for status, _ in answers} == {200}
    await both.settled()
    query = sa.select(persons.c.distinct_id, persons.c.properties)
    known = {row[0]: row[1] for row in await both.here.read(lambda c: c.execute(query).all())}
    assert known == {who: {f"k{number}": 1 for number in range(24)} for who in MEMBERS}
    assert ["waits for the database" in log.read_text() for log in both.logs] == [False, False]
