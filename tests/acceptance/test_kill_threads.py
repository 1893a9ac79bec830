"""Killed with -9 around a turn of a task in its Slack thread: what somebody said is told once, and answered once."""

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.store.tables import runs
from loops.store.task_tables import task_rounds
from loops.store.thread_tables import thread_messages, threads
from server.app import Wiring
from tests.acceptance.victims import Places, Victim, free_port, named, together
from tests.doubles.slack import TOKEN, SlackDouble, slack
from tests.integration.running import eventually, running
from tests.integration.slack_loops import SECRET, connect, encoded, post, signed
from tests.integration.threading import thread_loop

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.postgres]
_numbers = itertools.count(1)
LANES = 3


@dataclass
class Speaker:
    """A service whose loop answers in the threads of a channel, and somebody who speaks there."""

    victim: Victim
    slack: SlackDouble
    connection: int

    async def say(self, text: str, thread: str = "") -> str:
        """Until it was answered, as Slack does; the ts of the message."""
        ts = f"{time.time():.0f}.{next(_numbers):06d}"
        more = {"thread_ts": thread} if thread else {}
        body = encoded(post(f"Ev{uuid.uuid4().hex}", ts, channel="C1", text=text, **more))
        path = f"/hooks/slack/{self.connection}"

        async def sent() -> int:
            return await self.victim.call(path, data=body, headers=signed(body))

        await eventually(sent, lambda status: 200 <= status < 300)
        return ts

    async def thread(self, ts: str) -> Mapping[str, Any] | None:
        found = await self.victim.found(sa.select(threads).where(threads.c.thread_ts == ts))
        return found[0] if found else None

    async def listens(self, ts: str, turn: int) -> Mapping[str, Any]:
        row = await eventually(
            lambda: self.thread(ts), lambda one: one and (one["status"], one["turn"]) == ("listening", turn), 60
        )
        assert row is not None
        return row

    def reactions(self, ts: str) -> list[Any]:
        """What stands under a message."""
        return [one for one in self.slack.reactions if one[1] == ts]

    def texts(self, ts: str) -> list[str]:
        there = [one for one in self.slack.posted["C1"] if one.get("thread_ts") == ts]
        return [one["text"] for one in there if one["metadata"]["event_type"] == "loops_message"]


async def prepared(folder: Path, url: str, slack_url: str) -> int:
    async with running(folder, url, role="web", wiring=Wiring(dispatching=False)) as service:
        number = await connect(service, "slack", signing_secret=SECRET, bot_token=TOKEN, api_base_url=slack_url)
        await service.create(thread_loop("C1", "told", anything=True))
        return number


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def speakers(places: Places) -> AsyncIterator[list[Speaker]]:
    """One on SQLite and one on Postgres for each lane."""
    made: list[Speaker] = []
    async with AsyncExitStack() as opened:
        for folder, address in opened.enter_context(places.opened(LANES)):
            double = await opened.enter_async_context(slack())
            number = await prepared(folder, address, double.url)
            made.append(Speaker(Victim(folder, address, 0, free_port()), double, number))
            made[-1].victim.begin()
        yield made
        for one in made:
            await one.victim.end()


# In the order in which a turn passes them.
POINTS = [
    ("accept:after", 1),
    ("dispatch:inside", 1),
    ("enqueue_task:after", 1),
    ("model:4", 1),
    ("round:inside", 1),
    ("task_end:inside", 1),
]


async def answered_once(speaker: Speaker, point: str, nth: int) -> None:
    first = await speaker.say("Look at that.")
    await speaker.listens(first, 1)
    await eventually(lambda: asyncio.sleep(0, speaker.texts(first)), bool)  # the run of the first turn is over
    await speaker.victim.arm(point, nth)
    saying = asyncio.create_task(speaker.say("And since when?", first))  # who dies may not have answered
    await speaker.victim.died()
    speaker.victim.begin()
    ts = await saying
    row = await speaker.listens(first, 2)
    said = await speaker.victim.found(sa.select(thread_messages).where(thread_messages.c.task_id == row["task_id"]))
    assert [(one["ts"], one["round"]) for one in said] == [(ts, 4)]
    kept = await speaker.victim.found(sa.select(task_rounds.c.body).where(task_rounds.c.task_id == row["task_id"]))
    assert sorted((one["body"]["number"], one["body"]["turn"]) for one in kept) == [
        (1, 1), (2, 1), (3, 1), (4, 2), (5, 2)
    ]  # fmt: skip
    await eventually(lambda: asyncio.sleep(0, speaker.texts(first)), lambda texts: len(texts) >= 2)
    assert speaker.texts(first) == ["Reported.", "Answered."]
    # Signs go out beside the work: what a kill came before is made up for.
    await eventually(lambda: asyncio.sleep(0, speaker.reactions(first)), bool)
    assert len(speaker.reactions(first)) == 1


@pytest.mark.parametrize("points", together(POINTS, LANES), ids=named)
async def test_killed_at_any_point_of_a_turn_what_was_said_is_told_once_and_answered_once(speakers, points):
    lanes = [(speakers[2 * lane : 2 * lane + 2], point) for lane, point in enumerate(points)]
    await asyncio.gather(*(answered_once(one, *point) for both, point in lanes for one in both))


def _all_over(found: Sequence[Mapping[str, Any]]) -> bool:
    return all(one["status"] == "completed" for one in found)


async def test_after_all_that_every_run_was_started_by_a_message_at_the_top(speakers):
    for speaker in speakers:
        found = await eventually(partial(speaker.victim.found, sa.select(runs.c.id, runs.c.status)), _all_over)
        assert len(found) == len(POINTS) // LANES
