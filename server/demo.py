"""`loops demo`: the whole way from a delivery or a time to the message, on a throw-away data folder.

Nothing here is special: the service is the product's, the deliveries are signed and sent over HTTP as their senders
send them, and what is printed comes from the same API that everybody uses. Only two things are none: a script speaks in
a model's place, through the real agent loop and its tools, and a stand-in takes what is posted to Slack.
"""

import asyncio
import base64
import json
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, TextIO

import aiohttp
import yaml

from config.settings import Settings, ensure_secret_key, read_settings
from loops.errors import ConfigError, Fault
from loops.schedules.draft import SHAPES
from server.app import Service
from server.cost_words import OF_THE_SETTING
from server.demo_payloads import issue_opened, signed_up, slack_message
from server.demo_senders import Posting, github, posthog, slack
from server.demo_showing import Showing
from server.demo_slack import ADA, BEN, NAME, TOKEN, SlackStandIn, standing_in
from server.logs import setup_logging

_LOOPS = ("github-issue-triage.yaml", "slack-answer-in-thread.yaml", "posthog-signup-summary.yaml")
_ON_TIME = "schedule-morning-report.yaml"


class Demo:
    """One demonstration: what it sets up and sends, in the order in which it is told."""

    def __init__(self, session: aiohttp.ClientSession, stand_in: SlackStandIn, out: TextIO) -> None:
        self._session = session
        self._stand_in = stand_in
        self._showing = Showing(session, out, stand_in.conversation)
        self._say = self._showing.say
        self._hooks: dict[str, str] = {}
        self._on_time = ""
        self._secrets = {
            "github": secrets.token_urlsafe(24),
            "slack": secrets.token_hex(16),
            "posthog": f"whsec_{base64.b64encode(secrets.token_bytes(24)).decode()}",
        }

    async def play(self) -> None:
        """Set up, deliver, and show what came of it."""
        self._say("Loops demo: a throw-away service on this machine. No account, no key, and nothing leaves it:")
        self._say(
            f"a script speaks in a model's place (scripted:demo), a {NAME} takes what is posted. All else is real."
        )
        self._say()
        await self._set_up()
        self._say("Sent to its hooks, signed as each sender signs:")
        issue, closed = await self._send_issues()
        question, asked = await self._ask()
        sign_up = await self._send("posthog", "signed_up", posthog(self._secrets["posthog"], signed_up()))
        schedule = await self._schedule()
        await self._tell(issue)
        await self._tell(closed)
        await self._tell(asked)
        await self._tell_of_own(question)
        await self._ask_more(question)
        await self._tell(sign_up)
        self._say()
        await self._showing.occurrence(schedule)

    async def _set_up(self) -> None:
        """Slack comes first: its connection is number 1, which the examples name."""
        for kind, more in (
            (
                "slack",
                {"signing_secret": self._secrets["slack"], "bot_token": TOKEN, "api_base_url": self._stand_in.url},
            ),
            ("github", {"webhook_secret": self._secrets["github"]}),
            ("posthog", {"webhook_secret": self._secrets["posthog"]}),
        ):
            name = NAME if kind == "slack" else "demo"
            made = await self._post("integrations", {"kind": kind, "name": name, "settings": more})
            self._hooks[kind] = f"/hooks/{kind}/{made['id']}"
        for name in _LOOPS:
            await self._apply(name)
        self._on_time = await self._apply(_ON_TIME)

    async def _apply(self, name: str) -> str:
        """Apply and enable an example; the workflow's id."""
        document = yaml.safe_load((files("config") / "examples" / name).read_text(encoding="utf-8"))
        applied = await self._post("workflows/apply", {"document": document, "enable": True})
        return str(applied["id"])

    async def _schedule(self) -> Mapping[str, Any]:
        """A second schedule of the loop that is started by the clock: once, in the next seconds."""
        due = (datetime.now(UTC) + timedelta(seconds=2)).replace(microsecond=0)
        given = {"rrule": SHAPES["once"], "starts_at": due.isoformat(), "timezone": "Europe/Berlin"}
        made: Mapping[str, Any] = await self._post(f"workflows/{self._on_time}/schedules", given)
        self._say(f"  {'schedule':<9}{'once, at':<23}{due:%H:%M:%S} UTC")
        return made

    async def _send_issues(self) -> tuple[str, str]:
        """An issue that is opened, told twice, forged, and closed; the ids of the two deliveries that count."""
        secret, opened, closed = self._secrets["github"], issue_opened(), issue_opened(action="closed")
        once = github(secret, "issues", opened)
        issue = await self._send("github", "issue opened", once)
        await self._send("github", "the same once more", once)
        await self._send("github", "a forged one", github("another secret", "issues", opened))
        return issue, await self._send("github", "issue closed", github(secret, "issues", closed))

    async def _ask(self) -> tuple[Mapping[str, Any], str]:
        """Somebody asks in a thread; the question, and the id of the delivery that tells of it."""
        first = self._stand_in.put(ADA, {"text": "The export of May has stopped at 10,000 rows."})
        reply = {"text": "Is that the limit of last week?", "thread_ts": first["ts"]}
        question = self._stand_in.put(BEN, reply)
        posting = slack(self._secrets["slack"], slack_message(question))
        return question, await self._send("slack", "question in a thread", posting)

    async def _send(self, kind: str, what: str, posting: Posting) -> str:
        """Our id of the delivery, empty where none was stored."""
        begun = time.perf_counter()
        async with self._session.post(self._hooks[kind], data=posting.body, headers=posting.headers) as response:
            answer = await response.json()
        took = (time.perf_counter() - begun) * 1000
        came = answer.get("status", "not verified, nothing is stored")
        self._say(f"  {kind:<9}{what:<23}{response.status} {came}, {took:.0f} ms")
        return str(answer.get("delivery", ""))

    async def _tell(self, delivery: str) -> None:
        self._say()
        await self._showing.delivery(delivery)

    async def _tell_of_own(self, question: Mapping[str, Any]) -> None:
        """Slack tells an app of its own messages too: the answer comes back, and starts nothing."""
        answer = self._stand_in.thread(question["thread_ts"])[-1]
        posting = slack(self._secrets["slack"], slack_message(answer))
        self._say()
        await self._showing.delivery(await self._send("slack", "the loop's own answer", posting))

    async def _ask_more(self, question: Mapping[str, Any]) -> None:
        """Whoever asks more in the thread goes on with the task that answered there."""
        run = self._showing.runs[-1]
        more = self._stand_in.put(BEN, {"text": "And since when?", "thread_ts": question["thread_ts"]})
        posting = slack(self._secrets["slack"], slack_message(more))
        self._say()
        await self._showing.delivery(await self._send("slack", "more, in the thread", posting))
        await self._showing.turn(run["id"], 2)

    async def _post(self, path: str, document: Mapping[str, Any]) -> Any:  # noqa: ANN401 - foreign JSON
        place = f"/api/projects/default/{path}"
        async with self._session.post(place, json=document, raise_for_status=True) as response:
            return await response.json()

    def summary(self, url: str) -> dict[str, Any]:
        """The last line of standard output."""
        showing, statuses = self._showing, [run["status"] for run in self._showing.runs]
        return {
            "deliveries": len(showing.deliveries),
            "runs": len(statuses),
            "completed": statuses.count("completed"),
            "failed": len(statuses) - statuses.count("completed"),
            "notifications": len(showing.messages),
            "url": url,
        }

    def close(self) -> None:
        """What all of it came to."""
        spent = sum(run["cost"] for run in self._showing.runs)
        self._say()
        self._say(f"{len(self._showing.runs)} runs for ${spent:.4f}, {OF_THE_SETTING}.")


def demo_settings(folder: Path, work_dir: Path) -> Settings:
    """Settings of a service that leaves nothing behind; any free port of this machine. What the script costs is worked
    out at the price of a real model, so that a cost shows."""
    found = read_settings(
        None,
        {
            "LOOPS_DATA_DIR": str(folder),
            "LOOPS_WORK_DIR": str(work_dir),
            "LOOPS_PORT": "0",
            # What the demonstration forges is refused, which it tells itself.
            "LOOPS_LOG_LEVEL": "error",
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
    out = out or sys.stdout
    with (
        tempfile.TemporaryDirectory(prefix="loops-demo-") as folder,
        tempfile.TemporaryDirectory(prefix="loops-demo-work-") as work_dir,
    ):
        settings = demo_settings(Path(folder), Path(work_dir))
        setup_logging(settings.log_level, "text", settings.secret_values)
        async with standing_in() as stand_in:
            summary = await _played(settings, stand_in, out, leave=leave)
    print(json.dumps(summary), file=out, flush=True)
    return 0 if summary["runs"] and summary["failed"] == 0 else 1


async def _played(settings: Settings, stand_in: SlackStandIn, out: TextIO, *, leave: bool) -> dict[str, Any]:
    service = Service(settings)
    try:
        await service.start()
        authorization = {"Authorization": f"Bearer {service.new_token}"}
        async with aiohttp.ClientSession(service.url, headers=authorization) as session:
            demo = Demo(session, stand_in, out)
            await demo.play()
            demo.close()
        if not leave:
            await _invite(service, out)
        return demo.summary(service.url)
    finally:
        await service.stop()


async def _invite(service: Service, out: TextIO) -> None:
    lines = (
        "",
        f"Pages:  {service.url}/deliveries   {service.url}/runs   {service.url}/schedules   {service.url}/outbox",
        f"Token:  {service.new_token}",
        "Stop with Ctrl-C; nothing is left behind.",
    )
    print(*lines, sep="\n", file=out, flush=True)
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, service.stopping.set)
    await service.stopping.wait()
