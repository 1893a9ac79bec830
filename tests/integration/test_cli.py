"""The command line as people and programs run it: real processes, beside a running service and without one."""

import atexit
import functools
import hashlib
import hmac
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from loops.definition import read_documents
from server.demo_payloads import issue_opened
from tests.forking import Forked, Forking
from tests.integration.serving import KEY, SECRET, listening, workflow

ROOT = Path(__file__).parents[2]
PATIENCE = 60


@functools.cache
def forking() -> Forking:
    """Where commands are forked from, as long as this process lives."""
    made = Forking()
    atexit.register(made.close)
    return made


class Cli:
    """Runs commands in a folder, with settings of their own."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.data_dir = Path(environ.get("LOOPS_DATA_DIR", folder / ".loops"))
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR") if name in os.environ}
        self.environ = {**kept, "PYTHONPATH": str(ROOT), "TZ": "UTC", **environ}

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "server", *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=self.environ, text=True, **options)

    def __call__(self, *arguments: str, stdin: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
        return forking().run(arguments, self.folder, {**self.environ, **environ}, stdin, PATIENCE)

    def done(self, *arguments: str, **options: Any) -> str:
        """The output of a command that succeeds."""
        over = self(*arguments, **options)
        assert over.returncode == 0, over.stderr
        return over.stdout

    def json(self, *arguments: str, **options: Any) -> Any:
        """The JSON of a command that succeeds: all that it prints."""
        return json.loads(self.done(*arguments, "--json", **options))

    def failed(self, *arguments: str, code: int = 1, **options: Any) -> str:
        """What a command that fails says on standard error."""
        over = self(*arguments, **options)
        assert over.returncode == code, (over.stdout, over.stderr)
        assert "Traceback" not in over.stderr
        return over.stderr


class Served:
    """A service in a process of its own; `cold` is one that has imported nothing."""

    def __init__(self, cli: Cli, *, cold: bool = False) -> None:
        self.cli = cli
        self.output = cli.folder / f"output-{uuid.uuid4()}"
        self.process: subprocess.Popen[str] | Forked
        with self.output.open("w") as stream:
            if cold:
                self.process = cli.start("serve", stdout=stream, stderr=subprocess.STDOUT)
            else:
                self.process = forking().start(["serve"], cli.folder, cli.environ, stream)
        file = cli.data_dir / "service.json"
        self.told = self._wait_for(file)
        self.url = str(self.told["url"])

    def _wait_for(self, file: Path) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            if file.exists() and "Loops listens" in self.output.read_text():
                return dict(json.loads(file.read_text()))
            time.sleep(0.05)
        raise AssertionError(self.output.read_text())

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def deliver(self, hook: str, payload: object) -> tuple[str, str]:
        """Send a signed delivery; our id of it and the sender's."""
        body, key = json.dumps(payload).encode(), str(uuid.uuid4())
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "issues",
            "X-GitHub-Delivery": key,
            "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(),
        }
        with urllib.request.urlopen(urllib.request.Request(hook, data=body, headers=headers)) as answer:
            return json.load(answer)["delivery"], key


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    running = Served(Cli(tmp_path_factory.mktemp("s"), LOOPS_PORT="0"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def cli(served: Served) -> Cli:
    """Commands beside a running service."""
    return served.cli


@pytest.fixture(scope="module")
def hook(cli: Cli) -> str:
    """The hook of a GitHub connection."""
    made = cli.json("integrations", "create", "github", "--name", "hub", "--set", f"webhook_secret={SECRET}")
    return str(made["hook_url"])


@pytest.fixture
def alone(tmp_path: Path) -> Cli:
    """Commands where no service runs."""
    return Cli(tmp_path)


def write(cli: Cli, name: str, *documents: object) -> str:
    """A file in the folder that commands run in; its name."""
    content = documents[0] if len(documents) == 1 else {"workflows": documents}
    (cli.folder / name).write_text(json.dumps(content))
    return name


def until(cli: Cli, arguments: Sequence[str], wanted: Any) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not wanted(found := cli.json(*arguments)):
        assert time.monotonic() < deadline, found
    return found


# The forms that programs rely on


def test_a_new_token_is_printed_alone_and_works_over_the_address(cli: Cli, served: Served) -> None:
    made = cli.json("token", "create", "--role", "admin")
    assert list(made) == ["token"]
    remote = {"LOOPS_TOKEN": made["token"], "LOOPS_URL": served.url, "LOOPS_DATA_DIR": "/nonexistent/folder"}
    assert cli.json("runs", **remote)["next"] is None
    assert cli.json("runs", "--url", served.url + "/", LOOPS_TOKEN=made["token"])["next"] is None


def test_a_new_connection_is_told_by_its_id_and_hook(cli: Cli, served: Served) -> None:
    (cli.folder / "secret").write_text("from a file\n")
    made = cli.json("integrations", "create", "github", "--name", "from file", "--set", "webhook_secret=@secret")
    assert made == {"id": made["id"], "hook_url": f"{served.url}/hooks/github/{made['id']}"}
    mail = ["--set", "host=mail.example.org", "--set", "from=a@b.example"]
    assert cli.json("integrations", "create", "smtp", "--name", "mail", *mail)["hook_url"] is None
    listed = cli.done("integrations", "list")
    assert "from file" in listed
    assert "from a file" not in listed
    assert cli.json("integrations", "delete", made["id"]) == {"id": made["id"]}
    assert made["id"] not in [one["id"] for one in cli.json("integrations", "list")["items"]]


def test_apply_tells_what_became_of_each_workflow(cli: Cli) -> None:
    file = write(cli, "two.json", listening("one", status="draft"), listening("two", status="draft"))
    first = cli.json("apply", "-f", file)["workflows"]
    assert [(one["name"], one["status"], one["change"]) for one in first] == [
        ("one", "draft", "created"),
        ("two", "draft", "created"),
    ]
    assert list(first[0]) == ["id", "name", "status", "change"]
    again = cli.json("apply", "-f", "-", "--enable", stdin=json.dumps(listening("two", "closed")))["workflows"]
    assert again == [{"id": first[1]["id"], "name": "two", "status": "active", "change": "updated"}]


def test_applying_what_only_becomes_enabled_says_so(cli: Cli) -> None:
    file = write(cli, "later.json", listening("enabled later", status="draft"))
    assert cli.done("apply", "-f", file).startswith("created ")
    assert cli.done("apply", "-f", file).startswith("unchanged ")
    assert cli.done("apply", "-f", file, "--enable").startswith("enabled    enabled later  (active, ")
    assert cli.done("apply", "-f", file, "--enable").startswith("unchanged ")
    cli.done("workflows", "disable", "enabled later", "--running", "drain")
    (told,) = cli.json("apply", "-f", file, "--enable")["workflows"]
    assert (told["status"], told["change"]) == ("active", "unchanged")
    cli.done("workflows", "archive", "enabled later", "--running", "drain")


def test_apply_stores_nothing_when_one_of_the_files_is_faulty(cli: Cli) -> None:
    faulty = listening("faulty")
    faulty["edges"][0]["to"] = "nowhere"
    files = ["-f", write(cli, "good.json", listening("blameless")), "-f", write(cli, "bad.json", faulty)]
    said = cli.failed("apply", *files)
    assert "error: bad.json: edges[0].to: " in said
    assert "hint: " in said
    assert cli("export", "blameless").returncode == 1


def test_what_is_exported_can_be_applied_and_changes_nothing(cli: Cli) -> None:
    document = listening("there and back", description="multi\nline: yes", status="active")
    cli.done("apply", "-f", "-", stdin=json.dumps(document))
    assert json.loads(cli.done("export", "there and back")) == document
    text = cli.done("export", "there and back", "--yaml")
    assert read_documents(text) == [document]
    assert cli.json("apply", "-f", "-", stdin=text)["workflows"][0]["change"] == "unchanged"
    cli.done("workflows", "disable", "there and back", "--running", "drain")
    exported = cli.done("export", "there and back")
    assert json.loads(exported) == {**document, "status": "draft"}
    (again,) = cli.json("apply", "-f", "-", stdin=exported)["workflows"]
    assert (again["change"], again["status"]) == ("unchanged", "draft")
    cli.done("workflows", "enable", "there and back")
    assert document in read_documents(cli.done("export"))


def test_a_delivery_can_be_followed_to_its_verdicts_and_its_run(cli: Cli, served: Served, hook: str) -> None:
    trigger = listening("x")["actions"][0]["config"]
    write(cli, "f.json", workflow("waits", trigger, wait="10m"), listening("misses", "closed"))
    cli.done("apply", "-f", "f.json")
    ours, senders = served.deliver(hook, issue_opened())
    until(cli, ["deliveries"], lambda page: page["items"][0]["status"] == "dispatched")
    told = cli.json("explain", senders)
    assert told["delivery"]["id"] == ours
    assert {"workflow", "stage", "passed", "reason", "compared"} <= told["verdicts"][0].keys()
    (missed,) = cli.json("explain", ours, "misses")["verdicts"]
    assert (missed["stage"], missed["passed"]) == ("filters", False)
    shown = cli.done("explain", ours, "misses")
    assert 'action is "opened", wanted exactly "closed"' in shown
    assert 'NO  action exact ["closed"]; it is "opened"' in shown
    listed = until(cli, ["runs", "--workflow", "waits"], lambda page: page["items"][0]["status"] == "waiting")
    (run,) = listed["items"]
    keys = ("id", "workflow", "event", "delivery", "status", "reason", "started_at", "finished_at", "cost")
    assert {*keys} <= run.keys()
    assert run["delivery"] == ours
    (passed,) = cli.json("explain", ours, "waits")["verdicts"]
    assert (passed["passed"], passed["run"], missed["run"]) == (True, run["id"], None)
    assert f"  started run {run['id']}\n" in cli.done("explain", ours, "waits")
    assert "started run" not in shown
    assert cli.json("runs", "--delivery", senders, "--status", "waiting")["items"] == [run]
    assert cli.json("explain", senders[:20])["delivery"]["id"] == ours
    assert "issues opened #" in cli.done("runs", "--delivery", ours)
    assert "issues opened #" in cli.done("deliveries", "--limit", "1")
    assert "GitHub: issues opened" in cli.done("workflows", "list")
    short = run["id"][:18]
    assert cli.json("run-show", short)["id"] == run["id"]
    assert "waits for timer until" in cli.done("run-show", run["id"])
    assert cli.json("resume", run["id"], "--payload", '{"by": "ada"}')["id"] == run["id"]
    until(cli, ["run-show", run["id"]], lambda found: found["status"] == "completed")
    assert "noted ada" in cli.done("run-show", run["id"])
    assert "is completed" in cli.failed("cancel", run["id"])


def test_a_waiting_run_can_be_cancelled(cli: Cli, served: Served, hook: str) -> None:
    document = workflow("cancelled soon", listening("x")["actions"][0]["config"], wait="10m")
    cli.done("apply", "-f", "-", stdin=json.dumps(document))
    served.deliver(hook, issue_opened())
    arguments = ["runs", "--workflow", "cancelled soon"]
    listed = until(cli, arguments, lambda page: page["items"] and page["items"][0]["status"] == "waiting")
    assert cli.json("cancel", listed["items"][0]["id"])["status"] == "cancelled"
    cli.done("workflows", "archive", "cancelled soon")


def test_switching_off_what_runs_says_what_runs_and_asks_what_becomes_of_it(
    cli: Cli, served: Served, hook: str
) -> None:
    document = workflow("busy", listening("x")["actions"][0]["config"], wait="10m")
    cli.done("apply", "-f", "-", stdin=json.dumps(document))
    served.deliver(hook, issue_opened())
    listed = until(
        cli, ["runs", "--workflow", "busy"], lambda page: page["items"] and page["items"][0]["status"] == "waiting"
    )
    said = cli.failed("workflows", "disable", "busy")
    assert "1 run of workflow 'busy' is under way (1 waiting)" in said
    assert listed["items"][0]["id"] in said
    assert "--running drain lets them go on" in said
    assert "1 go on" in cli.done("workflows", "disable", "busy", "--running", "drain")
    (told,) = cli.json("workflows", "archive", "busy", "--running", "cancel")["workflows"]
    assert (told["status"], told["runs"]) == ("archived", {"draining": 0, "cancelled": 1, "stopping": 0})


def test_workflows_are_found_by_name_and_change_their_status(cli: Cli) -> None:
    (made,) = cli.json("apply", "-f", "-", stdin=json.dumps(listening("switched", status="draft")))["workflows"]
    assert cli.json("workflows", "enable", "switched")["workflows"] == [
        {"id": made["id"], "name": "switched", "status": "active"}
    ]
    assert "did you mean 'switched'?" in cli.failed("workflows", "disable", "swiched")
    assert "draft" in cli.done("workflows", "disable", made["id"])
    cli.done("workflows", "archive", "switched")
    listed = cli.done("workflows", "list")
    assert "switched" not in listed
    assert "SHAPE" in listed
    assert made["id"] in cli.done("workflows", "list", "--status", "archived")
    assert "loops workflows list" in cli.failed("workflows", "enable", "switched")


def test_what_a_workflow_cannot_do_here_is_printed_when_it_is_applied_and_when_it_is_enabled(cli: Cli) -> None:
    document = workflow("nightly", {"type": "schedule"}, status="draft")
    inputs = {"prompt": {"value": "Do it"}, "repository": {"value": "acme/widgets"}}
    document["actions"][1]["config"] = {"template_id": "template-posthog-create-task", "inputs": inputs}
    file = write(cli, "nightly.json", document)
    said = "warning: {}: actions[1].config.inputs.repository: no connection reaches acme/widgets"
    assert said.format("nightly.json") not in cli("validate", file).stderr  # a file alone is nobody's
    assert said.format("nightly.json") in cli("apply", "-f", file).stderr
    enabled = cli("workflows", "enable", "nightly", "--json")
    assert json.loads(enabled.stdout)["workflows"][0]["status"] == "active"
    assert said.format("nightly") in enabled.stderr
    assert "warning: nightly: schedules: it has none yet, so nothing starts it" in enabled.stderr
    assert cli("workflows", "disable", "nightly").stderr == ""
    cli.done("workflows", "archive", "nightly")


def test_a_connection_is_changed_where_it_stands(cli: Cli) -> None:
    made = cli.json(
        "integrations", "create", "github", "--name", "moves", "--set", "webhook_secret=x", "--set", "token=t"
    )
    (cli.folder / "another").write_text("from a file\n")
    update = ["integrations", "update", made["id"]]
    assert cli.json(*update, "--set", "webhook_secret=@another", "--unset", "token", "--set", "app_slug=us") == made
    (shown,) = [one for one in cli.json("integrations", "list")["items"] if one["id"] == made["id"]]
    assert (shown["config"], shown["secrets"]) == ({"app_slug": "us"}, ["webhook_secret"])
    assert "is changed" in cli.done(*update, "--set", "app_slug=loops")
    assert "settings.webhook_secret is missing" in cli.failed(*update, "--unset", "webhook_secret")
    assert "given twice" in cli.failed(*update, "--set", "token=t", "--unset", "token")
    assert "nothing to change" in cli.failed(*update)
    cli.done("integrations", "delete", made["id"])


def test_a_list_goes_on_at_its_cursor(cli: Cli) -> None:
    for name in ("a", "b", "c"):
        cli.done("apply", "-f", "-", stdin=json.dumps(listening(f"page {name}")))
    first = cli.json("workflows", "list", "--limit", "1")
    second = cli.json("workflows", "list", "--limit", "1", "--cursor", first["next"])
    assert [page["items"][0]["name"] for page in (first, second)] == ["page c", "page b"]
    assert f"more: --cursor {first['next']}" in cli.done("workflows", "list", "--limit", "1")


# How commands fail


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay-everything"],
        ["runs", "--limit", "0"],
        ["runs", "--status", "done"],
        ["apply"],
        ["token", "create"],
        ["integrations", "create", "gitlab", "--name", "x"],
        ["integrations", "create", "github", "--name", "x", "--set", "webhook_secret"],
        ["resume", "x", "--payload", "[]"],
        ["resume", "x", "--payload", "{"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_says_how_it_is_used(alone: Cli, arguments: list[str]) -> None:
    assert "usage: loops" in alone.failed(*arguments, code=2)
    assert not alone.data_dir.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run-show", "none"], ["error: there is no run 'none'"]),
        (["run-show", "nothing-begins-so"], ["error: there is no run 'nothing-begins-so'"]),
        (["cancel", "nothing-begins-so"], ["error: there is no run 'nothing-begins-so'"]),
        (["runs", "--delivery", "nope"], ["error: there is no delivery 'nope'", "hint: give our id or the sender's"]),
        (["explain", "none"], ["error: there is no delivery 'none'", "hint: give our id or the sender's"]),
        (["token", "revoke", "none"], ["error: there is no token 'none'"]),
        (["integrations", "delete", "none"], ["error: 'none' is not the id"]),
        (["apply", "-f", "missing.yaml"], ["error: missing.yaml: cannot be read"]),
        (["apply", "-f", "-"], ["error: standard input: "]),
        (["integrations", "create", "github", "--name", "x", "--set", "secret=y"], ["settings.secret", "hint: "]),
        (
            ["integrations", "create", "github", "--name", "x", "--set", "token=@no"],
            ["error: token: no cannot be read"],
        ),
        (["workflows", "enable", "Note who sign up"], ["error: there is no workflow with the id or name"]),
        (["runs", "--project", "other"], ["error: there is no project 'other'"]),
        (["runs", "--url", "gopher://x"], ["error: LOOPS_TOKEN is not set"]),
    ],
    ids=lambda value: " ".join(value) if value[0] in {"run-show", "explain", "token"} else None,
)
def test_a_failure_ends_with_1_and_says_what_mends_it(cli: Cli, arguments: list[str], words: list[str]) -> None:
    said = cli.failed(*arguments)
    assert all(word in said for word in words), said


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "gopher://x", "127.0.0.1:8765", "http://127.0.0.1:99999"])
def test_a_service_that_cannot_be_reached_is_named(alone: Cli, url: str) -> None:
    said = alone.failed("runs", "--url", url, LOOPS_TOKEN="loops_x")
    assert said.startswith("error: ")
    assert url in said


def test_a_wrong_token_is_refused_by_the_service(cli: Cli, served: Served) -> None:
    said = cli.failed("runs", "--url", served.url, LOOPS_TOKEN="loops_" + "x" * 43)
    assert "error: the token is not known or was revoked" in said


def test_every_wrong_setting_is_listed(alone: Cli) -> None:
    said = alone.failed("serve", LOOPS_PORT="many", LOOPS_TASKS="0", LOOPS_PROT="1")
    assert [line.split(":")[1].strip() for line in said.splitlines() if line.startswith("error")] == [
        "LOOPS_PROT",
        "LOOPS_PORT",
        "LOOPS_TASKS",
    ]
    assert "hint: did you mean LOOPS_PORT?" in said


def test_a_second_service_on_the_same_sqlite_file_is_refused_and_leaves_the_first_alone(cli: Cli) -> None:
    said = cli.failed("serve")
    assert "another process runs on" in said
    assert cli.json("runs")["next"] is None


def test_output_into_a_closed_pipe_ends_quietly(cli: Cli) -> None:
    with cli.start("export", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (1, "")


# The service itself


def test_a_service_announces_itself_stops_on_request_and_shows_its_first_token_once(tmp_path: Path) -> None:
    # Deeper than the path of a socket may be.
    deep = tmp_path.joinpath(*["a folder with a rather long name"] * 4)
    cli = Cli(tmp_path, LOOPS_PORT="0", LOOPS_DATA_DIR=str(deep))
    first = Served(cli, cold=True)
    file, socket = deep / "service.json", Path(first.told["socket"])
    assert (first.told["url"], first.told["pid"]) == (first.url, first.process.pid)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, socket)] == [0o600, 0o600]
    (token,) = [word for word in first.output.read_text().split() if word.startswith("loops_")]
    assert cli.json("token", "list")["items"][0]["name"] == "first admin"
    assert cli.json("runs", "--url", first.url, LOOPS_TOKEN=token)["items"] == []
    assert first.stop() == 0
    assert not file.exists()
    assert not socket.parent.exists()
    second = Served(cli)
    assert "loops_" not in second.output.read_text()
    assert second.stop() == 0


@pytest.mark.parametrize(
    ("environ", "listens", "reached"),
    [
        ({}, "http://127.0.0.1:", ""),
        ({"LOOPS_PUBLIC_URL": "https://loops.example.org"}, "http://127.0.0.1:", "https://loops.example.org"),
        ({"LOOPS_HOST": "0.0.0.0"}, "http://0.0.0.0:", "http://127.0.0.1:{port}"),
    ],
    ids=["nothing set", "a public address", "every interface"],
)
def test_the_start_says_where_the_service_listens_and_how_it_is_reached(
    tmp_path: Path, environ: dict[str, str], listens: str, reached: str
) -> None:
    served = Served(Cli(tmp_path, LOOPS_PORT="0", LOOPS_LOG_FORMAT="json", **environ))
    lines = served.output.read_text().splitlines()
    assert served.stop() == 0
    (said,) = [line for line in lines if line.startswith("Loops listens on ")]
    ready = next(json.loads(line) for line in lines if '"ready"' in line)
    address = ready["listens"]
    port = address.rpartition(":")[2]
    assert address == listens + port
    assert port.isdigit()
    assert said == f"Loops listens on {address}" + (f", reached as {reached.format(port=port)}" if reached else "")
    assert ready["url"] == (reached.format(port=port) or address)


def test_a_demo_goes_from_each_source_to_its_result_leaves_nothing_and_ends_with_its_summary(alone: Cli) -> None:
    scratch = alone.folder / "scratch"
    scratch.mkdir()
    over = alone("demo", "--exit", TMPDIR=str(scratch))
    assert (over.returncode, over.stderr) == (0, "")
    *lines, last = over.stdout.splitlines()
    summary = json.loads(last)
    url = summary.pop("url")
    assert url.startswith("http://127.0.0.1:")
    assert summary == {"deliveries": 6, "runs": 4, "completed": 4, "failed": 0, "notifications": 6}
    assert not [line for line in lines if line.startswith(("Pages:", "Token:", "Stop"))]
    assert not alone.data_dir.exists()
    assert not [*scratch.iterdir()]

    text = "\n".join(lines)
    for words in ("duplicate", "401 not verified", "stand-in for Slack", "scripted:demo took", "4 runs for $0.0"):
        assert words in text
    stories = [story.splitlines() for story in text.split("\n\n")]
    issue, closed, question, own, more, signed_up, scheduled = stories[2:9]
    assert [line.split()[:2] for line in issue[2:5]] == [["round", "1"], ["round", "2"], ["round", "3"]]
    assert "  slack to C0123456789  sent" in issue
    assert closed[1].startswith("  stopped at filters: Triage opened issues: action is")
    thread = question[next(place for place, line in enumerate(question) if "in the thread of" in line) :]
    assert thread[0].endswith("  sent")
    assert [line.split(":")[0] for line in thread[1:4]] == ["  | Ada", "  | Ben", "  | Loops"]
    assert own[2].startswith("  stopped at own_output: Answer questions in their threads:")
    assert more[2].startswith("  goes on in Answer questions in their threads: handed to the live task of run ")
    assert more[-2] == "  | Loops: You ask: And since when?"
    assert more[-1].endswith("the scripted model cannot say more")
    assert signed_up[0] == "posthog: webhook signed_up"
    assert signed_up[-1].startswith("  email to sales@example.com  shown here alone")
    assert scheduled[0].startswith("schedule: once, on ")
    assert scheduled[1].startswith("  ran Write the morning report, due at ")
    assert "  slack to C0123456789  sent" in scheduled


# Without a service


def test_commands_open_the_database_themselves_where_no_service_runs(tmp_path: Path, database_url: str) -> None:
    alone = Cli(tmp_path, LOOPS_DATABASE_URL=database_url, LOOPS_SECRET_KEY=KEY)
    alone.done("migrate")
    token = alone.json("token", "create", "--role", "editor", "--name", "before the first start")
    assert token["token"].startswith("loops_")
    alone.done("integrations", "create", "github", "--name", "hub", "--set", f"webhook_secret={SECRET}")
    assert "before the first start" in alone.done("token", "list")
    checks = {check["name"]: check["state"] for check in alone.json("doctor")["checks"]}
    assert checks["database"] == checks["engine tables"] == checks["stored secrets"] == "ok"
    assert checks["service"] == "warning"


@pytest.mark.parametrize(
    "arguments",
    [["token", "create", "--role", "admin"], ["runs"], ["integrations", "list"], ["apply", "-f", "-"]],
    ids=lambda arguments: arguments[0],
)
def test_a_command_makes_no_database_where_there_is_none(alone: Cli, arguments: list[str]) -> None:
    over = alone(*arguments, "--json", stdin=json.dumps(listening("astray")))
    assert (over.returncode, over.stdout if arguments[0] != "apply" else "") == (1, "")
    assert over.stderr == (
        f"error: no service runs on, and no database is in, {alone.data_dir}\n"
        "hint: run it in the folder of the service, or set LOOPS_DATA_DIR, or --url\n"
    )
    assert not alone.data_dir.exists()


def test_a_database_file_that_is_not_there_is_named_and_not_made(alone: Cli) -> None:
    file = alone.folder / "elsewhere" / "loops.db"
    said = alone.failed("runs", LOOPS_DATABASE_URL=f"sqlite:///{file}")
    assert f"no service runs on {alone.data_dir}, and there is no database {file}" in said
    assert not alone.data_dir.exists()
    assert not file.parent.exists()


def test_a_change_of_the_secret_key_is_finished_without_a_new_hook(tmp_path: Path, database_url: str) -> None:
    new = "the key that comes after " * 2
    alone = Cli(tmp_path, LOOPS_DATABASE_URL=database_url, LOOPS_SECRET_KEY=KEY)
    alone.done("migrate")
    made = [
        alone.json("integrations", "create", "github", "--name", name, "--set", f"webhook_secret={SECRET}")
        for name in ("one", "two")
    ]
    assert "stored secrets" in alone("doctor", LOOPS_SECRET_KEY=new).stdout
    both = f"{new},{KEY}"
    assert alone.done("integrations", "rotate", LOOPS_SECRET_KEY=both) == (
        "secrets of 2 connections are under the first key\n"
    )
    assert alone.json("integrations", "rotate", LOOPS_SECRET_KEY=new) == {"resealed": 2, "unreadable": 0}
    listed = alone.json("integrations", "list", LOOPS_SECRET_KEY=new)["items"]
    assert [(one["id"], one["secrets"]) for one in listed] == [(one["id"], ["webhook_secret"]) for one in made]
    over = alone("integrations", "rotate")  # the old key opens none of them any more
    assert (over.returncode, over.stdout) == (1, "secrets of 0 connections are under the first key\n")
    assert "those of 2 can be opened with none of the keys" in over.stderr
    assert alone.json("doctor", LOOPS_SECRET_KEY=new)["healthy"]


def test_files_are_validated_without_a_service_or_a_database(alone: Cli) -> None:
    good = write(alone, "good.json", listening("good"))
    assert alone.json("validate", good) == {"valid": True, "faults": [], "warnings": []}
    bad = write(alone, "bad.json", {"name": "x"})
    over = alone("validate", good, bad, "--json")
    assert over.returncode == 1
    assert not json.loads(over.stdout)["valid"]
    assert "error: bad.json: actions: " in over.stderr
    assert not alone.data_dir.exists()


def test_what_only_the_project_knows_is_said_not_to_be_looked_at(alone: Cli) -> None:
    inputs = {"prompt": {"value": "Look."}, "skills": {"value": ["triage"]}}
    config = {"template_id": "template-posthog-create-task", "inputs": inputs}
    document = listening("skilled")
    document["actions"][1]["config"] = config
    said = alone.done("validate", write(alone, "skilled.json", document))
    assert "skills are not held against the project: loops lint --ask does that" in said


def test_the_examples_are_valid(alone: Cli) -> None:
    files = [str(path) for path in sorted((ROOT / "config" / "examples").iterdir())]
    assert files
    alone.done("validate", *files)


def test_the_doctor_finds_what_is_wrong_and_changes_nothing(alone: Cli) -> None:
    checks = alone.json("doctor")["checks"]
    warned = [check["name"] for check in checks if check["state"] == "warning" and check["name"] != "sandbox"]
    assert warned == ["data folder", "database", "service"]
    assert "set LOOPS_DATA_DIR" in next(check["hint"] for check in checks if check["name"] == "data folder")
    assert not alone.data_dir.exists()
    alone.done("migrate")
    alone.done("integrations", "create", "github", "--name", "hub", "--set", f"webhook_secret={SECRET}")
    assert alone.json("doctor")["healthy"]
    (alone.data_dir / "secret.key").chmod(0o644)
    alone.data_dir.chmod(0o755)
    over = alone("doctor", "--json", LOOPS_SECRET_KEY="another key " * 4)
    assert over.returncode == 1
    failed = {check["name"]: check["hint"] for check in json.loads(over.stdout)["checks"] if check["state"] == "failed"}
    assert failed.keys() == {"data folder", "secret key file", "stored secrets"}
    assert "chmod" in failed["data folder"]
    assert "LOOPS_SECRET_KEY" in failed["stored secrets"]


def test_the_doctor_lists_wrong_settings_and_an_unknown_schema(alone: Cli) -> None:
    said = alone("doctor", LOOPS_PORT="many")
    assert (said.returncode, "LOOPS_PORT" in said.stdout) == (1, True)
    assert alone.json("migrate")["schema"]
    with sqlite3.connect(alone.data_dir / "loops.db") as database:
        database.execute("UPDATE loops_schema SET version_num = '9999'")
    database.close()
    said = alone("doctor")
    assert said.returncode == 1
    assert "has schema 9999" in said.stdout
    assert "newer release" in alone.failed("runs")
