"""Loops whose tasks answer in Slack threads, and the people who speak there."""

import asyncio
import itertools
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from loops.agent.model import ToolSpec
from loops.agent.models.scripted import ScriptedTurn
from loops.agent.tools.tool import CallContext, Effect
from loops.event import JsonValue
from loops.store import threads as thread_store
from loops.store.thread_tables import thread_messages
from loops.store.threads import ThreadRow
from tests.doubles.slack import TOKEN
from tests.doubles.slack_socket import APP_TOKEN, SlackSocketDouble, until
from tests.integration.running import Running, eventually, workflow
from tests.integration.slack_loops import config_of, connect, deliveries_of, post
from tests.integration.tasking import calls, ends, task_action, task_of

_seconds = itertools.count(1_793_610_000)
MARK = "Incomplete: the task did not end by itself."


class Gate:
    """A tool that is called `wait`, and returns when the gate of its channel is opened."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = {}
        self.waiting: list[str] = []
        self.effect: Effect = "read"
        self.name = "wait"

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec("wait", "Waits.", {"type": "object", "properties": {"at": {"type": "string"}}})

    async def call(self, arguments: Mapping[str, Any], _context: CallContext) -> JsonValue:
        at = str(arguments["at"])
        self.waiting.append(at)
        await self.gates.setdefault(at, asyncio.Event()).wait()
        return "opened"

    def open(self, at: str) -> None:
        self.gates.setdefault(at, asyncio.Event()).set()


def waits(at: str) -> ScriptedTurn:
    return calls("wait", {"at": at}, "I wait.")


def thread_loop(channel: str, word: str, *, anything: bool = False, **inputs: Any) -> dict[str, Any]:
    """A loop that answers each message of a channel in its thread: those at the top of it, or `anything`. The script
    of its task is the one of the word."""
    document = workflow(f"{word} in {channel}", task_action(prompt=f"Work as {word}", inputs=inputs))
    wanted = [
        {"key": "channel", "value": [channel], "operator": "exact", "type": "event"},
        {"key": "bot_id", "operator": "is_not_set", "type": "event"},
    ]
    if not anything:
        wanted.append({"key": "thread_ts", "operator": "is_not_set", "type": "event"})
    document["actions"][0]["config"]["filters"] = {
        "source": "internal-events",
        "events": [{"id": "$slack_message_received", "type": "events"}],
        "properties": wanted,
    }
    return document


class Thread:
    """A channel of a test's own with one loop, and one thread in it."""

    def __init__(self, live: Running, slack: SlackSocketDouble, connection: int) -> None:
        self.live = live
        self.slack = slack
        self.connection = connection
        self.channel = f"C{uuid.uuid4().hex[:10].upper()}"
        self.slack.posted[self.channel] = []
        self.loop = ""
        self.first = ""
        self.run_id = ""
        self.task_id = ""

    async def listen(self, word: str, **more: Any) -> str:
        """Create the loop; its id."""
        self.loop = (await self.live.create(thread_loop(self.channel, word, **more))).id
        return self.loop

    def message(self, text: str, name: str = "message__plain", **event: Any) -> dict[str, Any]:
        ts = event.pop("ts", f"{next(_seconds)}.000100")
        return post(f"Ev{uuid.uuid4().hex}", ts, name, channel=self.channel, text=text, **event)

    async def begin(self, text: str = "The export is on fire.", **event: Any) -> None:
        """Somebody writes, and the loop starts a task."""
        envelope = self.message(text, **event)
        self.first = envelope["event"]["ts"]
        await self.slack.deliver(envelope)
        (run,) = await eventually(lambda: self.live.runs(self.loop), bool)
        self.run_id = run["id"]
        self.task_id = (await task_of(self.live, self.run_id)).id

    async def say(self, text: str, name: str = "message__plain", **event: Any) -> dict[str, Any]:
        """Somebody answers in the thread; the delivery once it is decided."""
        envelope = self.message(text, name, **{"thread_ts": self.first, **event})
        return await self.deliver(envelope)

    async def deliver(self, envelope: Mapping[str, Any]) -> dict[str, Any]:
        await self.slack.deliver(envelope)
        key = envelope["event_id"]

        async def found() -> Sequence[Mapping[str, Any]]:
            rows = await deliveries_of(self.live, self.connection)
            return [row for row in rows if row["key"] == key and row["status"] != "accepted"]

        return dict((await eventually(found, bool))[0])

    async def stages(self, delivery: Mapping[str, Any]) -> list[str]:
        return [one["stage"] for one in await self.live.verdicts(delivery["id"])]

    async def row(self) -> ThreadRow | None:
        return await self.live.read(lambda connection: thread_store.of_task(connection, self.task_id))

    async def is_(self, status: str, turn: int = 1) -> ThreadRow:
        """The thread once it stands like this."""
        row = await eventually(self.row, lambda found: found and (found.status, found.turn) == (status, turn))
        assert row is not None
        return row

    def answers(self) -> list[str]:
        """What was posted in the thread, without what tells of the progress."""
        there = [one for one in self.slack.posted[self.channel] if one["metadata"]["event_type"] == "loops_message"]
        assert all(one.get("thread_ts") == self.first for one in there)
        return [
            "\n".join(block["text"]["text"] for block in one["blocks"] if block["type"] == "section") for one in there
        ]

    async def answered(self, *texts: str) -> None:
        """Until exactly this stands in the thread."""
        await until(lambda: len(self.answers()) >= len(texts))
        assert self.answers() == list(texts)

    async def said(self) -> list[tuple[str, int | None]]:
        """Who was heard, and before which round that was told."""
        table = sa.select(thread_messages.c.user, thread_messages.c.round)
        table = table.where(thread_messages.c.task_id == self.task_id)
        return await self.live.read(lambda c: [(row[0], row[1]) for row in c.execute(table.order_by("ts"))])


async def connected(live: Running, slack: SlackSocketDouble) -> int:
    """A Slack connection whose socket is open and whose app is known."""
    number = await connect(live, "threads", app_token=APP_TOKEN, bot_token=TOKEN, api_base_url=slack.url)
    await eventually(lambda: config_of(live, number), lambda found: "bot_id" in found)
    await until(lambda: bool(slack.sockets))
    return number


__all__ = ["MARK", "Gate", "Thread", "connected", "ends", "thread_loop", "waits"]
