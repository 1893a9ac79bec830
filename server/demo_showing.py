"""How the demonstration tells what happens while it happens: a delivery's verdicts, a run's rounds, its messages."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

import aiohttp

from server.rounds import message_lines
from server.terminal import plain

_PATIENCE = 60.0
_OVER = frozenset({"completed", "failed", "cancelled"})


class Showing:
    """Reads the API as everybody does, and prints. `deliveries` are the ids that were told of; `runs` and `messages`
    what the API says of them in the end."""

    def __init__(self, session: aiohttp.ClientSession, out: TextIO, arrived: Callable[[str], Sequence[str]]) -> None:
        """`arrived` tells what stands where a message of Slack has arrived, by its `ts`."""
        self._session = session
        self._arrived = arrived
        self._out = out
        self.deliveries: list[str] = []
        self.runs: list[Mapping[str, Any]] = []
        self.messages: list[Mapping[str, Any]] = []

    def say(self, text: str = "") -> None:
        """A line for the person who watches."""
        print(text, file=self._out, flush=True)

    async def get(self, path: str, **query: str) -> Any:  # noqa: ANN401 - foreign JSON
        """What is at a path of the project."""
        place = f"/api/projects/default/{path}"
        async with self._session.get(place, params=query, raise_for_status=True) as response:
            return await response.json()

    async def delivery(self, delivery_id: str) -> None:
        """Why a delivery started a run, or none; then every run that it started."""
        item = await self._settled(delivery_id)
        self.deliveries.append(delivery_id)
        self.say(f"{item['source']}: {plain(item['what'])}")
        told = await self.get(f"deliveries/{delivery_id}/verdicts")
        for verdict in _telling(told["verdicts"]):
            word = "starts" if verdict["passed"] else f"stopped at {verdict['stage']}:"
            word = "goes on in" if verdict["stage"] == "thread" else word
            self.say(f"  {word} {plain(verdict['workflow_name'])}: {plain(verdict['reason'])}")
        for run in (await self.get("runs", delivery=delivery_id))["items"]:
            await self.run(run["id"])

    async def occurrence(self, schedule: Mapping[str, Any]) -> None:
        """What became of the one occurrence of a schedule once it is due, and the run that it started."""
        self.say(f"schedule: {plain(schedule['when'])}")
        path = f"workflows/{schedule['workflow']}/schedules/{schedule['id']}/occurrences"
        async with asyncio.timeout(_PATIENCE):
            while True:
                past = (await self.get(path))["items"]
                if past:
                    break
                await asyncio.sleep(0.05)
        reason = f": {plain(past[0]['reason'])}" if past[0]["reason"] else ""
        self.say(f"  {past[0]['outcome']} {plain(schedule['workflow_name'])}, due at {plain(past[0]['at'])}{reason}")
        if past[0]["run"] is not None:
            await self.run(past[0]["run"])

    async def _settled(self, delivery_id: str) -> Mapping[str, Any]:
        async with asyncio.timeout(_PATIENCE):
            while True:
                item: Mapping[str, Any] = await self.get(f"deliveries/{delivery_id}")
                if item["status"] != "accepted":
                    return item
                await asyncio.sleep(0.05)

    async def run(self, run_id: str) -> None:
        """The rounds of a run's tasks as they come; then what it came to, what it cost, and its messages."""
        shown: set[tuple[str, int]] = set()
        async with asyncio.timeout(_PATIENCE):
            while True:
                run = await self.get(f"runs/{run_id}")
                for task in run["tasks"]:
                    await self._rounds(task, shown)
                if run["status"] in _OVER:
                    break
                await asyncio.sleep(0.05)
        self.runs.append(run)
        spent = [f", {plain(task['model'])} took {_tokens(task)} tokens" for task in run["tasks"]]
        self.say(f"  {run['status']} ({plain(run['reason'])}){''.join(spent)}: ${run['cost']:.4f}")
        for message in (await self.get("notifications", run=run_id))["items"][::-1]:
            await self._message(message["id"])

    async def _rounds(self, task: Mapping[str, Any], shown: set[tuple[str, int]]) -> None:
        trace = await self.get(f"tasks/{task['id']}/trace")
        for one in trace["rounds"]:
            known, reply = (task["id"], one["number"]), one["reply"]
            if known not in shown and len(one["results"]) == len(reply["calls"]):
                shown.add(known)
                called = ", ".join(plain(call["name"]) for call in reply["calls"])
                self.say(f"  round {one['number']}  {called:<23} {plain(reply['text'])}".rstrip())

    async def turn(self, run_id: str, number: int) -> None:
        """The rounds of a task's turn in its thread, once that is over, and what it answered."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                (task,) = (await self.get(f"runs/{run_id}"))["tasks"]
                if task["thread"]["turn"] >= number and task["thread"]["status"] != "working":
                    break
                await asyncio.sleep(0.05)
        self.runs = [await self.get(f"runs/{run_id}") if one["id"] == run_id else one for one in self.runs]
        rounds = (await self.get(f"tasks/{task['id']}/trace"))["rounds"]
        shown = {(task["id"], one["number"]) for one in rounds if one["turn"] < number}
        await self._rounds(task, shown)
        await self._message((await self.get("notifications", run=run_id))["items"][0]["id"])

    async def _message(self, message_id: str) -> None:
        """Where a message went, and what stands there now; of one that stays here, why."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                message = await self.get(f"notifications/{message_id}")
                if message["status"] not in {"pending", "sending"}:
                    break
                await asyncio.sleep(0.05)
        self.messages.append(message)
        self.say(f"  {next(message_lines(message))}")
        for ref in message["refs"]:
            lines = [line for said in self._arrived(ref) for line in said.splitlines()]
            for line in filter(str.strip, lines):
                self.say(f"  | {plain(line)}")


def _telling(verdicts: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of the loops that listen to such an event; the others have nothing to say about it."""
    return [one for one in verdicts if one["passed"] or one["stage"] != "trigger"]


def _tokens(task: Mapping[str, Any]) -> str:
    return f"{task['input_tokens'] + task['output_tokens']:,}"
