"""`loops run`, `loops replay` and `loops webhook` as they are typed, beside a service that runs."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.running import issue
from tests.integration.serving import SECRET, listening, workflow
from tests.integration.test_by_hand import VARIABLES
from tests.integration.test_cli import Cli, Served, until, write

MANUAL = workflow("by hand", {"type": "manual"}, variables=VARIABLES)
HOOKED = workflow(
    "hooked",
    {"type": "webhook", "inputs": {"event": {"value": "paid"}, "distinct_id": {"value": "{request.body.who}"}}},
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    running = Served(Cli(tmp_path_factory.mktemp("s"), LOOPS_PORT="0"))
    cli = running.cli
    cli.done("apply", "-f", write(cli, "w.json", MANUAL, HOOKED, listening("opened"), listening("closed", "closed")))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def cli(served: Served) -> Cli:
    return served.cli


@pytest.fixture(scope="module")
def hook(cli: Cli) -> str:
    made = cli.json("integrations", "create", "github", "--name", "hub", "--set", f"webhook_secret={SECRET}")
    return str(made["hook_url"])


def post(url: str, body: Any) -> dict[str, Any]:
    sent = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(sent) as answer:
        return dict(json.load(answer))


def test_a_run_is_started_with_variables_and_waited_for(cli: Cli) -> None:
    run = cli.json("run", "by hand", "--var", "customer=acme", "--var", "count=3", "--wait")
    assert (run["status"], run["workflow_name"]) == ("completed", "by hand")
    assert "is completed" in cli.done("run", "by hand", "--wait")


def test_sc27_a_key_makes_of_two_commands_one_run(cli: Cli) -> None:
    first, second = [cli.json("run", "by hand", "--key", "k1") for _ in range(2)]
    assert first == second
    assert cli.json("run", "by hand")["run"] != cli.json("run", "by hand")["run"]


def test_what_cannot_be_run_says_why(cli: Cli) -> None:
    assert "must be a number" in cli.failed("run", "by hand", "--var", "count=many")
    assert "loops replay" in cli.failed("run", "opened")
    assert "not KEY=VALUE" in cli.failed("run", "by hand", "--var", "count", code=2)


def test_waiting_where_nothing_would_run_is_refused(tmp_path: Any) -> None:
    assert "no service runs" in Cli(tmp_path).failed("run", "by hand", "--wait")


def test_a_delivery_is_played_again_for_one_workflow_or_for_all(cli: Cli, served: Served, hook: str) -> None:
    ours, senders = served.deliver(hook, issue())
    until(cli, ["deliveries"], lambda page: page["items"][0]["status"] == "dispatched")
    (one,) = cli.json("replay", senders)["items"]
    assert (one["workflow_name"], one["replay"]) == ("opened", 1)
    (two,) = cli.json("replay", ours, "--workflow", "opened")["items"]
    assert two["replay"] == 2
    assert two["run"] in cli.done("explain", ours, "opened")
    assert ", replay 2" in cli.done("run-show", two["run"])
    stopped = cli("replay", ours, "--workflow", "closed")
    assert stopped.returncode == 1
    assert "stopped at filters" in stopped.stdout


def test_what_was_missed_in_a_period_is_played_again(cli: Cli, served: Served, hook: str) -> None:
    cli.done("workflows", "disable", "opened", "--running", "drain")
    missed = [served.deliver(hook, issue())[0] for _ in range(2)]
    until(cli, ["deliveries"], lambda page: all(one["status"] != "accepted" for one in page["items"]))
    cli.done("workflows", "enable", "opened")
    told = cli.json("replay", "--workflow", "opened", "--since", "1h")
    assert [one["delivery"] for one in told["items"]] == missed
    assert "nothing was played again of" in cli.done("replay", "--workflow", "opened", "--since", "2026-01-01T00:00Z")


@pytest.mark.parametrize(
    "arguments", [[], ["--since", "1h"], ["d", "--since", "1h"], ["--workflow", "opened"], ["--until", "1h"]], ids=str
)
def test_a_replay_of_nothing_in_particular_says_how_it_is_used(cli: Cli, arguments: list[str]) -> None:
    assert "say what is to be played again" in cli.failed("replay", *arguments)


def test_a_time_that_is_none_is_wrong_usage(cli: Cli) -> None:
    assert "is no time" in cli.failed("replay", "--workflow", "opened", "--since", "soon", code=2)


def test_the_address_of_a_webhook_is_shown_used_and_changed(cli: Cli) -> None:
    told = cli.json("webhook", "hooked")
    assert (told["method"], told["verified"]) == ("POST", False)
    assert told["url"] in cli.done("webhook", "hooked")
    assert post(told["url"], {"who": "ada"})["status"] == "accepted"
    until(cli, ["runs", "--workflow", "hooked"], lambda page: len(page["items"]) == 1)
    new = cli.json("webhook", "hooked", "--rotate")
    assert new["url"] != told["url"]
    assert cli.json("webhook", "hooked") == new
    assert "its trigger is no webhook" in cli.failed("webhook", "by hand")


# Test runs


def happened(action: str = "opened") -> str:
    properties = {"repository": "acme/widgets", "event_type": "issues", "action": action, "sender": "ada"}
    return json.dumps({"event": {"event": "$github_event_received", "properties": properties}})


def test_a_workflow_is_tested_action_by_action_or_to_its_end(cli: Cli) -> None:
    (cli.folder / "happened.json").write_text(happened())
    assert "success  trigger -> note" in cli.done("test-run", "opened", "--globals", "happened.json")
    whole = cli.done("test-run", "opened", "--all", "--globals", happened())
    assert "noted ada" in whole
    assert whole.endswith("the end is reached\n")
    note = cli.json("test-run", "opened", "--action", "note", "--globals", happened())
    assert (note["status"], note["nextActionId"], note["result"]) == ("success", "exit", {"text": "noted ada"})


def test_a_file_is_tested_on_a_delivery_without_being_stored(cli: Cli, served: Served, hook: str) -> None:
    ours, senders = served.deliver(hook, issue())
    until(cli, ["deliveries"], lambda page: page["items"][0]["status"] != "accepted")
    file = write(cli, "unstored.json", listening("unstored", "closed"))
    stopped = cli.done("test-run", file, "--delivery", senders)
    assert "skipped  trigger" in stopped
    assert 'action exact ["closed"]: opened does not fit' in stopped
    assert cli("test-run", file, "--delivery", ours, "--all").returncode == 1
    assert "unstored" not in cli.done("workflows", "list")


def test_a_test_run_that_fails_says_where_and_what_mends_it(cli: Cli) -> None:
    document = listening("broken")
    document["actions"][1]["config"]["inputs"]["text"]["value"] = "{upper(event.properties.title)}"
    file = write(cli, "broken.json", document)
    over = cli("test-run", file, "--action", "note", "--globals", happened())
    assert (over.returncode, "error    note" in over.stdout) == (1, True)
    assert "error: actions[1].config.inputs.text:" in over.stderr
    assert "hint: " in over.stderr
    assert "is not JSON" in cli.failed("test-run", "opened", "--globals", "{")
    assert "did you mean" in cli.failed("test-run", "opened", "--action", "nte", "--globals", happened())
    assert "there is no workflow" in cli.failed("test-run", "nobody.json", "--globals", happened())
