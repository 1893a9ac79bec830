"""`loops demo`: the whole way from a delivery to the message, on a throw-away data folder.

Nothing here is special: the service is the product's, the deliveries are signed and sent over HTTP as their senders
send them, and what is printed comes from the same API that everybody uses. Only the model is none: a script speaks in
its place, through the real agent loop and its tools.
"""

import asyncio
import hashlib
import hmac
import json
import secrets
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TextIO

import aiohttp
import yaml

from config.settings import Settings, ensure_secret_key, read_settings
from loops.errors import ConfigError, Fault
from server.app import Service
from server.cost_words import with_source
from server.demo_payloads import issue_opened, push
from server.logs import setup_logging
from server.rounds import message_lines, round_lines

_PATIENCE = 60.0
_OVER = frozenset({"completed", "failed", "cancelled"})


class Demo:
    """One demonstration: what it did so far, and how it tells it."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.deliveries: list[str] = []
        self.runs: list[Mapping[str, Any]] = []
        self.messages: list[Mapping[str, Any]] = []

    def say(self, text: str = "") -> None:
        """A line for the person who watches."""
        print(text, file=self._out, flush=True)

    async def play(self, service: Service, session: aiohttp.ClientSession) -> None:
        """Set up, deliver, and show what came of it."""
        webhook_secret = secrets.token_urlsafe(24)
        self.say("1. A GitHub connection and two loops")
        made = await _post(session, "integrations", {
            "kind": "github", "name": "demo", "settings": {"webhook_secret": webhook_secret},
        })  # fmt: skip
        hook = service.url + "/hooks/github/" + made["id"]
        self.say(f"   hook        {hook}")
        for name in ("github-issue-triage.yaml", "github-push-log.yaml"):
            document = yaml.safe_load((files("config") / "examples" / name).read_text(encoding="utf-8"))
            saved = await _post(session, "workflows/apply", {"document": document, "enable": True})
            self.say(f"   loop        {saved['name']}  ({saved['status']})")
        self.say()
        self.say("2. Deliveries as GitHub sends them, signed")
        issue_key = str(uuid.uuid4())
        await self._deliver(session, hook, webhook_secret, "issues", issue_opened(), issue_key)
        await self._deliver(session, hook, webhook_secret, "issues", issue_opened(), issue_key)
        await self._deliver(session, hook, webhook_secret, "push", push(), str(uuid.uuid4()))
        await self._deliver(session, hook, webhook_secret, "issues", issue_opened(action="closed"), str(uuid.uuid4()))
        await self._forge(session, hook)
        self.say()
        self.say("3. What came of each")
        for delivery in self.deliveries:
            await self._tell(session, delivery)

    async def _deliver(
        self, session: aiohttp.ClientSession, hook: str, secret: str, event: str, payload: Mapping[str, Any], key: str
    ) -> None:
        body = json.dumps(payload).encode()
        signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = _github_headers(event, key) | {"X-Hub-Signature-256": signature}
        begun = time.perf_counter()
        async with session.post(hook, data=body, headers=headers) as response:
            answer = await response.json()
        took = (time.perf_counter() - begun) * 1000
        what = f"{event} {payload.get('action', '')}".strip()
        self.say(f"   {what:<14} -> {response.status} {answer['status']:<10} in {took:.1f} ms")
        if answer["status"] == "accepted":
            self.deliveries.append(answer["delivery"])

    async def _forge(self, session: aiohttp.ClientSession, hook: str) -> None:
        headers = _github_headers("issues", str(uuid.uuid4())) | {"X-Hub-Signature-256": "sha256=" + "0" * 64}
        async with session.post(hook, data=b"{}", headers=headers) as response:
            self.say(f"   a forged one   -> {response.status}, nothing stored")

    async def _tell(self, session: aiohttp.ClientSession, delivery: str) -> None:
        item = await self._settled(session, delivery)
        self.say(f"   delivery {delivery}  {item['source']} {item['what']}: {item['status']}")
        verdicts = await _get(session, f"deliveries/{delivery}/verdicts")
        for verdict in verdicts["verdicts"]:
            mark = "starts" if verdict["passed"] else "not   "
            self.say(f"     {mark} {verdict['workflow_name']}: {verdict['reason']}")
        runs = await _get(session, "runs", delivery=delivery)
        for run in runs["items"]:
            await self._follow(session, run["id"])

    async def _settled(self, session: aiohttp.ClientSession, delivery: str) -> Mapping[str, Any]:
        async with asyncio.timeout(_PATIENCE):
            while True:
                item: Mapping[str, Any] = await _get(session, f"deliveries/{delivery}")
                if item["status"] != "accepted":
                    return item
                await asyncio.sleep(0.05)

    async def _follow(self, session: aiohttp.ClientSession, run_id: str) -> None:
        """Show the rounds of a run's task as they come, and its steps as they end."""
        shown: set[str] = set()
        async with asyncio.timeout(_PATIENCE):
            while True:
                run = await _get(session, f"runs/{run_id}")
                for task in run["tasks"]:
                    await self._show_task(session, task, shown)
                for step in run["steps"]:
                    if step["id"] not in shown and step["finished_at"] is not None:
                        shown.add(step["id"])
                        self._show_step(step)
                if run["status"] in _OVER:
                    break
                await asyncio.sleep(0.05)
        self.runs.append(run)
        models = [task["model"] for task in run["tasks"]]
        cost = with_source(f"${run['cost']:.4f}", models, run["cost"])
        self.say(f"     run {run['status']} ({run['reason']}), cost {cost}")
        for message in (await _get(session, "notifications", run=run_id))["items"]:
            await self._show_message(session, message["id"])

    async def _show_task(self, session: aiohttp.ClientSession, task: Mapping[str, Any], shown: set[str]) -> None:
        if task["model"] and task["id"] not in shown:
            shown.add(task["id"])
            self.say(f"     task {task['title']}, worked on by {task['model']} (a script: no key, nothing is sent out)")
        trace = await _get(session, f"tasks/{task['id']}/trace")
        for one in trace["rounds"]:
            known = f"{task['id']}:{one['number']}"
            if known not in shown and len(one["results"]) == len(one["reply"]["calls"]):
                shown.add(known)
                self._show_round(one)

    def _show_round(self, one: Mapping[str, Any]) -> None:
        for line in round_lines(one):
            self.say(f"       {line}")

    def _show_step(self, step: Mapping[str, Any]) -> None:
        self.say(f"     step {step['name'] or step['id']}: {step['status']}")
        for line in step["log"]:
            self.say(f"       {line['text']}")

    async def _show_message(self, session: aiohttp.ClientSession, message_id: str) -> None:
        message = await _get(session, f"notifications/{message_id}")
        self.messages.append(message)
        self.say("     message")
        for told in message_lines(message):
            self.say(f"       {told}")
        for line in message["message"]["text"].splitlines():
            self.say(f"       | {line}")

    def summary(self, url: str) -> dict[str, Any]:
        """The last line of standard output."""
        statuses = [run["status"] for run in self.runs]
        return {
            "deliveries": len(self.deliveries),
            "runs": len(statuses),
            "completed": statuses.count("completed"),
            "failed": len(statuses) - statuses.count("completed"),
            "notifications": len(self.messages),
            "url": url,
        }


def _github_headers(event: str, key: str) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/demo",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": key,
    }


async def _get(session: aiohttp.ClientSession, path: str, **query: str) -> Any:  # noqa: ANN401
    async with session.get(f"/api/projects/default/{path}", params=query, raise_for_status=True) as response:
        return await response.json()


async def _post(session: aiohttp.ClientSession, path: str, document: Mapping[str, Any]) -> Any:  # noqa: ANN401
    async with session.post(f"/api/projects/default/{path}", json=document, raise_for_status=True) as response:
        return await response.json()


def demo_settings(folder: Path) -> Settings:
    """Settings of a service that leaves nothing behind; any free port of this machine. What the script costs is worked
    out at the price of a real model, so that a cost shows."""
    found = read_settings(
        None,
        {
            "LOOPS_DATA_DIR": str(folder),
            "LOOPS_PORT": "0",
            "LOOPS_LOG_LEVEL": "warning",
            "LOOPS_MODEL": "scripted:demo",
            "LOOPS_PRICE": "3/15",
        },
    )
    complete = found if isinstance(found, tuple) else ensure_secret_key(found)
    if isinstance(complete, tuple):
        raise ConfigError([Fault(one.setting, one.message, one.hint) for one in complete])
    return complete


async def run_demo(*, leave: bool, out: TextIO | None = None) -> int:
    """Play the demonstration; stay up until interrupted unless `leave`. 0 if every run completed."""
    demo = Demo(out or sys.stdout)
    with tempfile.TemporaryDirectory(prefix="loops-demo-") as folder:
        settings = demo_settings(Path(folder))
        setup_logging(settings.log_level, "text", settings.secret_values)
        demo.say("Loops demo: a throw-away service on this machine, SQLite, no accounts needed")
        demo.say()
        service = Service(settings)
        try:
            await service.start()
            authorization = {"Authorization": f"Bearer {service.new_token}"}
            async with aiohttp.ClientSession(service.url, headers=authorization) as session:
                await demo.play(service, session)
            summary = demo.summary(service.url)
            if not leave:
                await _invite(demo, service)
        finally:
            await service.stop()
    demo.say(json.dumps(summary))
    return 0 if summary["runs"] and summary["failed"] == 0 else 1


async def _invite(demo: Demo, service: Service) -> None:
    demo.say()
    demo.say(f"Pages:  {service.url}/deliveries   {service.url}/runs")
    demo.say(f"Token:  {service.new_token}")
    demo.say("Stop with Ctrl-C; nothing is left behind.")
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, service.stopping.set)
    await service.stopping.wait()
