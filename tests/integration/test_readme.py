"""The README's way from nothing to four connections: its own commands, run one after the other in one folder."""

import asyncio
import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from loops.store import outbox as store
from loops.store.outbox import OutboxRow
from server.app import Service, Wiring
from server.cli.entry import run
from server.demo_payloads import issue_opened
from server.demo_senders import github
from tests.doubles.slack import TOKEN
from tests.doubles.slack_socket import APP_TOKEN, slack_sockets, until
from tests.doubles.smtp import smtp
from tests.integration.running import PROJECT, eventually, settings_for
from tests.integration.slack_loops import post
from tests.integration.tasking import REPORT, ends, scripted
from tests.integration.test_slack_sockets import FAST
from tests.unit.documentation import ROOT, section, unbroken

PROGRAMS = ("bash", "openssl", "curl")
LOOPS = ".venv/bin/loops "
README = unbroken((ROOT / "README.md").read_text("utf-8"))

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, PROGRAMS)), reason=f"the README's commands need {', '.join(PROGRAMS)}"
)


class Reader:
    """Somebody who follows the README in a folder. `filled` is what they put for what it leaves open, in commands and
    in the loops that they copy; `said` is what the last command printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.filled: dict[str, str] = {}
        self.said = ""

    async def follow(self, heading: str, *typed: str, **double: object) -> None:
        """The commands of a section. `typed` is what those that ask are told; `double` are settings that lead a
        connection to the double of its other side."""
        answers = [*typed]
        for written in re.findall(r"^ {4,}(\S.*)$", section(README, heading), re.MULTILINE):
            command = written
            for blank, value in self.filled.items():
                command = command.replace(blank, value)
            if command.startswith(LOOPS):
                more = "".join(f" --set {key}={value}" for key, value in double.items() if " create " in command)
                await self.loops(command.removeprefix(LOOPS) + more)
            else:
                await asyncio.to_thread(self._shell, command, answers.pop(0) if command.startswith("cat >") else "")
        assert not answers

    async def loops(self, arguments: str) -> None:
        """A command that has to succeed."""
        await asyncio.to_thread(self._loops, arguments)

    def _loops(self, arguments: str) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = run(shlex.split(arguments, comments=True))
        self.said = printed.getvalue()
        assert code == 0, (arguments, self.said)
        hook = re.search(r"^hook: (\S+)$", self.said, re.MULTILINE)
        if hook:
            self.filled["<hook>"] = hook[1]

    def _shell(self, command: str, typed: str) -> None:
        over = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder, input=f"{typed}\n", capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert over.returncode == 0, (command, over.stderr)
        self.said = over.stdout
        if command.startswith("cp "):
            copy = self.folder / command.split()[-1]
            text = copy.read_text("utf-8")
            for example, own in self.filled.items():
                text = text.replace(example, own)
            copy.write_text(text, "utf-8")


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """As `make run` starts it, in the folder in which the commands are given; a script works in a model's place."""
    settings = settings_for(tmp_path / ".loops", f"sqlite:///{tmp_path / '.loops' / 'loops.db'}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPS_SECRET_KEY", settings.secret_keys[0])
    (tmp_path / "config").symlink_to(ROOT / "config")
    # The second is for the loop that asks for a field as well.
    script = [ends(), ends(output={"urgent": True})]
    service = Service(settings, wiring=scripted(lambda: [*script], Wiring(slack=FAST)))
    try:
        await service.start()
        yield service
    finally:
        await service.stop()


async def test_who_follows_the_readme_gets_from_each_source_to_its_result(service: Service, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    async with slack_sockets() as slack, smtp(tmp_path, security="none", password=False) as (mail, _):
        await reader.follow("GitHub in five minutes")
        secret = (tmp_path / ".loops" / "github.secret").read_text("utf-8").strip()
        posting = github(secret, "issues", issue_opened())
        async with (
            aiohttp.ClientSession(headers=posting.headers) as client,
            client.post(reader.filled["<hook>"], data=posting.body) as response,
        ):
            reader.filled["<delivery>"] = (await response.json())["delivery"]
        outbox = await eventually(lambda: messages(service), bool)
        assert (outbox[0].status, outbox[0].message["text"]) == ("shown", REPORT)

        reader.filled |= {"C0123456789": "C1", "slack_workspace: {value: 1}": "slack_workspace: {value: 2}"}
        await reader.follow("Slack in five minutes", APP_TOKEN, TOKEN, api_base_url=slack.url)
        await slack.deliver(post("EvASKED", "1793610000.000100", channel="C1", text="is it on?"))
        await until(lambda: slack.posted["C1"])
        assert (slack.texts("C1"), slack.posted["C1"][0]["thread_ts"]) == ([REPORT], "1793610000.000100")

        # Before the connection tells its address to the world, it is led to the double.
        await reader.follow("Mail in a minute", "a password")
        await reader.loops(
            "integrations update 3 --unset username --unset password --set security=none "
            f"--set host=127.0.0.1 --set port={mail.port}"
        )
        reader.filled["integrationId: 2"] = "integrationId: 3"
        await reader.follow("PostHog in five minutes")
        assert json.loads(reader.said)["status"] == "accepted"
        await until(lambda: mail.mails)
        assert mail.mails[0]["Subject"] == "grace signed up"
        assert slack.texts("C1") == [REPORT] * 2

        reader.filled["<run>"] = str(outbox[0].run_id)
        await reader.follow("When nothing comes")
        assert REPORT in reader.said


async def messages(service: Service) -> list[OutboxRow]:
    return await service.services.reader.read(lambda connection: store.listed(connection, PROJECT, limit=10))
