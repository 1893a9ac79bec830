"""What is said of a connection before the first run: SL-31. Over the API, and as the command line prints it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from loops.store import connections
from loops.store.database import DEFAULT_PROJECT
from server.cli import main
from tests.doubles.github import github
from tests.doubles.site import NOW, WORKFLOW, Site, open_site
from tests.doubles.slack import TOKEN
from tests.doubles.slack_socket import APP_TOKEN, SlackSocketDouble, slack_sockets
from tests.doubles.smtp import PASSWORD, USER, smtp


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as site:
        yield site


@pytest.fixture
async def slack() -> AsyncIterator[SlackSocketDouble]:
    async with slack_sockets() as double:
        yield double


async def connect(site: Site, kind: str, config: dict[str, str], project: str = DEFAULT_PROJECT, **secrets: str) -> int:
    sealed = site.services.box.seal(secrets)
    return await site.services.writer.run(
        lambda connection: connections.insert(
            connection, project_id=project, kind=kind, name="work", config=config, secrets=sealed, now=NOW
        )
    )


async def get(site: Site, token: str, path: str, **query: str) -> tuple[int, Any]:
    target, headers = f"/api/projects/{DEFAULT_PROJECT}/{path}", {"Authorization": f"Bearer {token}"}
    async with site.client.get(target, headers=headers, params=query) as answer:
        return answer.status, await answer.json()


async def cli(site: Site, monkeypatch: pytest.MonkeyPatch, token: str, *arguments: str) -> int:
    monkeypatch.setenv("LOOPS_TOKEN", token)
    url = str(site.client.make_url("/")).rstrip("/")
    return await asyncio.to_thread(main, [*arguments, "--url", url])


def posting(name: str, connection: int, channel: str, **inputs: str) -> dict[str, Any]:
    """An active workflow that posts to a channel."""
    given = {"slack_workspace": connection, "channel": channel, "text": "seen", **inputs}
    config = {"template_id": "template-slack", "inputs": {key: {"value": value} for key, value in given.items()}}
    actions = [
        {**action, "type": "function", "config": config} if action["id"] == "log" else action
        for action in WORKFLOW["actions"]
    ]
    return {**WORKFLOW, "name": name, "status": "active", "actions": actions}


# Channels


async def test_the_channels_of_a_workspace_are_listed_in_pages_with_membership_and_searched(
    site, slack, monkeypatch, capsys
):
    number = await connect(site, "slack", {"api_base_url": slack.url}, bot_token=TOKEN)
    slack.infos["C3"] = {"is_member": True, "is_private": True, "is_ext_shared": True}
    slack.names["C3"] = "general-board"
    token = await site.token("viewer")
    path = f"integrations/{number}/channels"
    _, first = await get(site, token, path, limit="2")
    _, second = await get(site, token, path, limit="2", offset=str(first["next"]))
    assert [one["name"] for one in [*first["items"], *second["items"]]] == ["alerts", "general", "general-board"]
    assert (first["next"], second["next"]) == (2, None)
    assert second["items"][0] == {
        "id": "C3", "name": "general-board", "is_private": True, "is_member": True, "is_ext_shared": True,
        "takes_posts": True,
    }  # fmt: skip
    assert [one["is_member"] for one in first["items"]] == [False, True]
    searches = [await get(site, token, path, search=text) for text in ("#General", "c2", "nothing")]
    assert [[one["id"] for one in told["items"]] for _, told in searches] == [["C1", "C3"], ["C2"], []]
    assert slack.called("conversations.list") == 1
    assert await cli(site, monkeypatch, token, "integrations", "channels", str(number)) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].split() == ["#alerts", "no:", "invite", "it", "C2"]


@pytest.mark.parametrize(
    ("query", "path"), [({"limit": "0"}, "limit"), ({"offset": "-1"}, "offset"), ({"cursor": "x"}, "cursor")]
)
async def test_a_part_of_the_list_that_cannot_be_is_refused(site, query: dict[str, str], path: str):
    number = await connect(site, "slack", {}, bot_token=TOKEN)
    status, told = await get(site, await site.token("viewer"), f"integrations/{number}/channels", **query)
    assert (status, told["error"]["path"]) == (400, path)


async def test_what_has_no_channels_says_so(site, slack):
    token = await site.token()
    await site.project("other")
    others = await connect(site, "slack", {"api_base_url": slack.url}, "other", bot_token=TOKEN)
    mail = await connect(site, "smtp", {"host": "127.0.0.1", "from": "a@example.org"})
    hears = await connect(site, "slack", {}, signing_secret="s" * 32)
    answers = [await get(site, token, f"integrations/{number}/channels") for number in (others, mail, 99, hears)]
    assert [status for status, _ in answers] == [404, 404, 404, 409]
    assert "bot_token" in answers[-1][1]["error"]["message"]
    slack.list_faults = [{"error": "missing_scope", "needed": "channels:read", "provided": "chat:write"}]
    await site.services.writer.run(lambda connection: connections.delete(connection, DEFAULT_PROJECT, hears))
    broken = await connect(site, "slack", {"api_base_url": slack.url}, bot_token=TOKEN)
    status, told = await get(site, token, f"integrations/{broken}/channels")
    assert status == 502
    assert "channels:read" in told["error"]["hint"]


# Checks


async def test_sl_31_scopes_that_active_loops_need_are_held_against_those_that_are_there(site, slack):
    number = await connect(site, "slack", {"api_base_url": slack.url}, bot_token=TOKEN, app_token=APP_TOKEN)
    slack.scopes = "channels:read,groups:read,users:read"
    await site.services.workflows.create(DEFAULT_PROJECT, posting("Triage", number, "C1", username="T"), "ada")
    await site.services.workflows.create(DEFAULT_PROJECT, posting("Tell Ada", number, "U0ADA"), "ada")
    status, told = await get(site, await site.token("editor"), f"integrations/{number}/check")
    assert (status, told["healthy"], told["id"]) == (200, False, str(number))
    checks = {one["name"]: one for one in told["checks"]}
    assert checks["slack work, bot token"]["state"] == "failed"
    assert checks["slack work, bot token"]["message"] == (
        "it lacks chat:write, which 'Tell Ada' needs to post messages; im:write, which 'Tell Ada' needs to write to a "
        "person; chat:write.customize, which 'Triage' needs to post under another name and icon; "
        "provided: channels:read,groups:read,users:read"
    )
    assert "install the app anew" in checks["slack work, bot token"]["hint"]
    assert checks["slack work, app token"]["state"] == "ok"
    assert checks["slack work, channels"]["state"] == "ok"
    slack.scopes += ",chat:write,im:write"
    _, told = await get(site, await site.token("editor", "eve"), f"integrations/{number}/check")
    assert (told["healthy"], told["checks"][0]["state"]) == (True, "warning")


async def test_a_channel_that_an_active_loop_posts_to_without_the_app_in_it_is_named_with_its_mend(
    site, slack, monkeypatch, capsys
):
    number = await connect(site, "slack", {"api_base_url": slack.url}, bot_token=TOKEN)
    for name, channel in (("Triage", "C2|#alerts"), ("By name", "#nowhere"), ("Anywhere", "{event.properties.x}")):
        await site.services.workflows.create(DEFAULT_PROJECT, posting(name, number, channel), "ada")
    await site.services.workflows.create(DEFAULT_PROJECT, {**posting("Draft", number, "C9"), "status": "draft"}, "ada")
    token = await site.token("editor")
    _, told = await get(site, token, f"integrations/{number}/check")
    assert [(one["state"], one["message"]) for one in told["checks"][1:]] == [
        ("failed", "#nowhere is no channel that the app sees, where 'By name' posts"),
        ("failed", "the app is not in #alerts (C2), where 'Triage' posts"),
    ]
    assert told["checks"][2]["hint"] == "invite it there: /invite @loops"
    assert await cli(site, monkeypatch, token, "integrations", "check", str(number)) == 1
    printed = capsys.readouterr().out
    assert "failed   slack work, channels: the app is not in #alerts (C2), where 'Triage' posts" in printed
    assert await cli(site, monkeypatch, token, "integrations", "check", str(number), "--json") == 1
    assert json.loads(capsys.readouterr().out)["healthy"] is False


@pytest.mark.parametrize(("answers", "state"), [(None, "warning"), (True, "warning"), (False, "warning")])
async def test_a_task_that_answers_in_threads_needs_to_write_and_to_react(site, slack, answers, state):
    number = await connect(site, "slack", {"api_base_url": slack.url}, bot_token=TOKEN)
    inputs = {"prompt": {"value": "Work."}}
    if answers is not None:
        inputs["reply_in_slack_thread"] = {"value": answers}
    properties = [{"key": "channel", "value": ["C1"], "operator": "exact", "type": "event"}]
    filters = {"source": "internal-events", "events": [{"id": "$slack_message_received"}], "properties": properties}
    trigger = {"id": "trigger", "type": "trigger", "config": {"type": "internal-event", "filters": filters}}
    config = {"template_id": "template-posthog-create-task", "inputs": inputs}
    step = {**WORKFLOW["actions"][1], "type": "function", "config": config}
    document = {**WORKFLOW, "name": "Answer", "status": "active", "actions": [trigger, step, *WORKFLOW["actions"][2:]]}
    await site.services.workflows.create(DEFAULT_PROJECT, document, "ada")
    slack.scopes = slack.scopes.replace(",reactions:write", "")
    _, told = await get(site, await site.token("editor"), f"integrations/{number}/check")
    check = told["checks"][0]
    assert check["state"] == state
    needs = "reactions:write, which 'Answer' needs to mark the message that started a run"
    assert (needs in check["message"]) is (answers is not False)


async def test_a_loop_that_hears_needs_one_of_the_scopes_for_it(site, slack):
    number = await connect(site, "slack", {"api_base_url": slack.url}, bot_token=TOKEN)
    properties = [{"key": "channel", "value": ["C1"], "operator": "exact", "type": "event"}]
    filters = {"events": [{"id": "$slack_message_received"}], "properties": properties}
    trigger = {"id": "trigger", "type": "trigger", "config": {"type": "internal-event", "filters": filters}}
    document = {**WORKFLOW, "status": "active", "actions": [trigger, *WORKFLOW["actions"][1:]]}
    await site.services.workflows.create(DEFAULT_PROJECT, document, "ada")
    token, states = await site.token("editor"), []
    for scopes in ("chat:write", "chat:write,groups:history"):
        slack.scopes = scopes
        _, told = await get(site, token, f"integrations/{number}/check")
        states.append(told["checks"][0])
    assert [one["state"] for one in states] == ["failed", "warning"]
    assert "channels:history, which 'Log opened issues' needs to hear messages" in states[0]["message"]


async def test_a_mail_server_is_reached_and_signed_in_to_and_gets_no_mail(site, tmp_path):
    token = await site.token("editor")
    config = {"host": "127.0.0.1", "from": "loops@example.org", "username": USER, "security": "none"}
    async with smtp(tmp_path, security="none", password=False) as (double, _tls):
        plain = {"host": "127.0.0.1", "port": str(double.port), "from": "loops@example.org"}
        number = await connect(site, "smtp", {**plain, "security": "none"})
        _, told = await get(site, token, f"integrations/{number}/check")
        assert told["checks"] == [
            {"name": "smtp work", "state": "ok", "message": "127.0.0.1 is reached without TLS", "hint": ""}
        ]
        await site.services.writer.run(lambda connection: connections.delete(connection, DEFAULT_PROJECT, number))
        starttls = await connect(site, "smtp", plain)
        _, told = await get(site, token, f"integrations/{starttls}/check")
        assert (told["healthy"], double.envelopes) == (False, [])
        assert "does not offer STARTTLS" in told["checks"][0]["message"]
        await site.services.writer.run(lambda connection: connections.delete(connection, DEFAULT_PROJECT, starttls))
    clear = await connect(site, "smtp", config, password=PASSWORD)
    _, told = await get(site, token, f"integrations/{clear}/check")
    assert told["checks"][0]["message"] == "the password would travel in the clear"


async def test_github_is_asked_what_the_doctor_asks(site):
    async with github() as hub:
        settings = hub.app_settings()
        base = {"api_base_url": settings["api_base_url"], "app_slug": "my-loops"}
        secrets = {key: value for key, value in settings.items() if key not in base}
        number = await connect(site, "github", base, **secrets)
        _, told = await get(site, await site.token("editor"), f"integrations/{number}/check")
    assert [one["name"] for one in told["checks"]] == ["github work, app", "github work, hook"]


async def test_a_connection_of_which_nobody_can_be_asked_says_so(site):
    await site.project("other")
    kinds = {"github": {"webhook_secret": "x"}, "posthog": {"api_key": "phc_x"}, "slack": {"signing_secret": "s"}}
    numbers = [await connect(site, kind, {}, **secrets) for kind, secrets in kinds.items()]
    token = await site.token("editor")
    answers = [(await get(site, token, f"integrations/{number}/check"))[1] for number in numbers]
    assert [(one["healthy"], len(one["checks"]), one["checks"][0]["state"]) for one in answers] == [(True, 1, "ok")] * 3
    others = await connect(site, "posthog", {}, "other", api_key="phc_y")
    assert (await get(site, token, f"integrations/{others}/check"))[0] == 404
    assert (await get(site, await site.token("viewer", "vera"), f"integrations/{numbers[0]}/check"))[0] == 403
