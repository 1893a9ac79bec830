"""What is legal and probably not meant, as it is told where a workflow is saved, enabled or checked: by the API and the
command line, with what Slack says of the channels."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from loops.store.database import DEFAULT_PROJECT
from server.cli import main
from tests.doubles.site import Site, open_site
from tests.doubles.slack import TOKEN, SlackDouble, slack
from tests.integration.test_connection_checks import connect
from tests.unit.definition.documents import changed, loop, only, with_function

CHANNEL = "actions[2].config.inputs.channel"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as site:
        yield site


@pytest.fixture
async def double() -> AsyncIterator[SlackDouble]:
    async with slack() as opened:
        yield opened


Ask = Callable[[str, str, Any], Awaitable[Any]]


@pytest.fixture
async def ask(site: Site) -> Ask:
    """What the API answers an admin."""
    headers = {"Authorization": f"Bearer {await site.token()}"}

    async def asked(method: str, path: str, body: Any) -> Any:
        target = f"/api/projects/{DEFAULT_PROJECT}/{path}"
        async with site.client.request(method, target, headers=headers, json=body) as answer:
            told = await answer.json()
            assert answer.status in {200, 201}, told
            return told

    return asked


def findings(told: Any) -> dict[str, dict[str, str]]:
    """What lint found, by code."""
    return {one["code"]: one for one in told["warnings"] if "code" in one}


async def test_saving_checking_and_enabling_name_the_channel_and_the_invitation(site, ask, double):
    number = await connect(site, "slack", {"api_base_url": double.url}, bot_token=TOKEN)
    document = changed(loop("github", "slack"), "actions.2.config.inputs.slack_workspace.value", number)
    document = changed(document, "actions.2.config.inputs.channel.value", "C2|#alerts")
    expected = {
        "path": CHANNEL,
        "message": "the app is not in #alerts (C2): nothing can be posted there",
        "hint": "invite it there: /invite @loops",
        "code": "notify-channel-without-app",
    }
    checked = await ask("POST", "workflows/validate", {"document": document})
    assert (checked["valid"], findings(checked)) == (True, {"notify-channel-without-app": expected})
    made = await ask("POST", "workflows", document)
    applied = await ask("POST", "workflows/apply", {"document": document})
    replaced = await ask("PUT", f"workflows/{made['id']}", {**document, "description": "x"})
    enabled = await ask("POST", f"workflows/{made['id']}/enable", {})
    for told in (made, applied, replaced, enabled):
        assert findings(told) == {"notify-channel-without-app": expected}
    assert double.posted["C2"] == []
    double.infos["C2"] = {"is_member": True}
    assert findings(await ask("POST", f"workflows/{made['id']}/enable", {})) == {}


@pytest.mark.parametrize("channel", ["#general", "C1", "{event.properties.github_event.channel}", "U0ADA"])
async def test_a_channel_that_nothing_speaks_against_is_not_named(site, ask, double, channel: str):
    number = await connect(site, "slack", {"api_base_url": double.url}, bot_token=TOKEN)
    document = with_function("template-slack", slack_workspace=number, channel=channel, text="x")
    assert findings(await ask("POST", "workflows/validate", {"document": document})) == {}


async def test_a_slack_that_does_not_answer_holds_up_no_saving(site, ask):
    number = await connect(site, "slack", {"api_base_url": "http://127.0.0.1:1/api"}, bot_token=TOKEN)
    await site.project("other")
    others = await connect(site, "slack", {}, "other", bot_token=TOKEN)
    for connection in (number, others, 99):
        document = with_function("template-slack", slack_workspace=connection, channel="C2", text="x")
        checked = await ask("POST", "workflows/validate", {"document": {**document, "name": str(connection)}})
        assert (checked["valid"], findings(checked)) == (True, {})


async def test_event_text_in_a_prompt_is_a_fault_with_its_code(ask):
    document = changed(loop("github"), "actions.1.config.inputs.prompt.value", "Fix {event.properties.title}")
    checked = await ask("POST", "workflows/validate", {"document": document})
    assert [(one["code"], one["hint"]) for one in checked["faults"]] == [
        ("event-text-in-prompt", "write instead: read the title property of the triggering event")
    ]


# By command


def lines(folder: Path, document: Any) -> str:
    file = folder / "loop.json"
    file.write_text(json.dumps(document), "utf-8")
    return str(file)


def test_lint_tells_findings_alone_with_their_codes_and_ends_with_1(tmp_path, capsys):
    properties = [only("repository", "a/b"), only("event_type", "issues")]
    anybody = changed(loop("github"), "actions.0.config.filters.properties", properties)
    file = lines(tmp_path, anybody)
    assert main(["lint", file]) == 1
    out, complaints = capsys.readouterr()
    assert out == "0 faults, 1 finding\n"
    told = complaints.splitlines()[0]
    assert told.startswith(f"warning: {file}: actions[0].config.filters.properties: no filter on actor_access")
    assert told.endswith("[github-without-actor-access]")
    assert main(["lint", file, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["clean"], [one["code"] for one in told["findings"]]) == (False, ["github-without-actor-access"])
    assert main(["lint", file, "--allow", "github-without-actor-access"]) == 0
    assert capsys.readouterr().out == "clean\n"
    assert main(["validate", file]) == 0
    assert "[github-without-actor-access]" in capsys.readouterr().err


def test_lint_refuses_a_code_that_is_none_and_tells_what_is_wrong_with_a_file(tmp_path, capsys):
    assert main(["lint", lines(tmp_path, loop("github")), "--allow", "everything"]) == 1
    assert "no code of lint" in capsys.readouterr().err
    faulty = changed(loop("github"), "actions.1.config.inputs.prompt.value", "{event.properties.body}")
    assert main(["lint", lines(tmp_path, faulty)]) == 1
    assert "[event-text-in-prompt]" in capsys.readouterr().err


async def test_lint_has_the_service_look_where_it_is_asked_to(site, double, tmp_path, capsys, monkeypatch):
    number = await connect(site, "slack", {"api_base_url": double.url}, bot_token=TOKEN)
    document = with_function("template-slack", slack_workspace=number, channel="C2", text="x")
    monkeypatch.setenv("LOOPS_TOKEN", await site.token("viewer"))
    file, url = lines(tmp_path, document), str(site.client.make_url("/")).rstrip("/")
    assert await asyncio.to_thread(main, ["lint", file]) == 0
    assert await asyncio.to_thread(main, ["lint", file, "--ask", "--url", url]) == 1
    assert "the app is not in #alerts (C2)" in capsys.readouterr().err
