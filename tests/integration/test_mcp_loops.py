"""An agent builds loops with nothing but the tools, as its skill tells it: looked up, created, tried step by step,
enabled; then something really happens, the task runs, and people are told."""

import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import aiohttp
import pytest
import pytest_asyncio

from loops.agent.models.scripted import Script
from tests.doubles.github import GitHubDouble, github
from tests.doubles.slack import TOKEN, SlackDouble, slack
from tests.doubles.smtp import SmtpDouble, smtp
from tests.integration.agent import Agent, agent_at
from tests.integration.running import issue
from tests.integration.serving import SECRET, Api, eventually, fresh_token, running, settings_for
from tests.integration.slack_loops import SECRET as SLACK_SECRET
from tests.integration.slack_loops import post, signed
from tests.integration.tasking import REPORT, ends, scripted

pytestmark = pytest.mark.asyncio(loop_scope="module")

MESSAGE = "{variables.task_final_message}"


@dataclass(frozen=True)
class Surroundings:
    """A service with what is connected to it."""

    api: Api
    hub: GitHubDouble
    workspace: SlackDouble
    mails: SmtpDouble
    editor: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def around(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Surroundings]:
    """A service whose tasks are worked on by a script, connected to doubles of GitHub, Slack and a mail server."""
    folder = tmp_path_factory.mktemp("agent")

    def script() -> Script:
        return [ends()]

    async with (
        running(settings_for(folder, f"sqlite:///{folder / 'loops.db'}"), scripted(script)) as service,
        aiohttp.ClientSession(service.url) as session,
        github() as hub,
        slack() as workspace,
        smtp(folder, security="none", password=False) as (mails, _),
    ):
        hub.repositories = ["acme/gadgets", "acme/widgets"]
        hub.may("ada", "write")
        assert service.new_token is not None
        api = Api(session, "default", service.new_token, service)
        await _connect(api, "github", "work", webhook_secret=SECRET, **hub.token_settings())
        await _connect(api, "slack", "team", bot_token=TOKEN, signing_secret=SLACK_SECRET, api_base_url=workspace.url)
        sender = {"host": "127.0.0.1", "port": str(mails.port), "security": "none", "from": "loops@example.org"}
        await _connect(api, "smtp", "mail", **sender)
        yield Surroundings(api, hub, workspace, mails, await fresh_token(service, "default", "editor"))


async def _connect(api: Api, kind: str, name: str, **settings: str) -> None:
    await api.post("integrations", {"kind": kind, "name": name, "settings": settings})


# What the skill says


def loop(name: str, prompt: str, trigger: Mapping[str, Any], notify: Mapping[str, Any]) -> dict[str, Any]:
    """The one shape of a loop, with the values in it replaced."""
    task = {"prompt": {"value": prompt}, "non_failure_status_codes": {"value": [409]}}
    return {
        "name": name,
        "description": "",
        "status": "draft",
        "origin_product": "loops",
        "exit_condition": "exit_only_at_end",
        "variables": [{"key": "task_final_message", "type": "string", "default": ""}],
        "actions": [
            {"id": "trigger", "name": "Trigger", "type": "trigger", "config": trigger},
            {
                "id": "create_task",
                "name": "Create AI task",
                "type": "function",
                "config": {"template_id": "template-posthog-create-task", "inputs": task},
                "output_variable": [{"key": "task_final_message", "result_path": "final_message"}],
            },
            {"id": "notify", "name": "Notify", **notify},
            {"id": "exit", "name": "Exit", "type": "exit", "config": {"reason": "Task finished"}},
        ],
        "edges": [
            {"from": "trigger", "to": "create_task", "type": "continue"},
            {"from": "create_task", "to": "notify", "type": "continue"},
            {"from": "notify", "to": "exit", "type": "continue"},
        ],
    }


def listens(event: str, *properties: Mapping[str, Any]) -> dict[str, Any]:
    filters = {
        "source": "internal-events",
        "events": [{"id": event, "type": "events"}],
        "properties": [{**one, "type": "event"} for one in properties],
    }
    return {"type": "internal-event", "filters": filters}


def exact(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": [value], "operator": "exact"}


def unset(key: str) -> dict[str, Any]:
    return {"key": key, "value": "is_not_set", "operator": "is_not_set"}


def to_slack(connection: str, channel: str, name: str) -> dict[str, Any]:
    inputs = {"slack_workspace": connection, "channel": channel, "text": f"{name} finished: {MESSAGE}"}
    config = {"template_id": "template-slack", "inputs": {key: {"value": value} for key, value in inputs.items()}}
    return {"type": "function", "config": config}


def by_mail(connection: str, address: str, name: str) -> dict[str, Any]:
    mail = {
        "from": {"integrationId": connection},
        "to": {"email": address, "name": ""},
        "subject": f"{name} finished",
        "text": "{{ variables.task_final_message }}",
        "html": "",
    }
    config = {"template_id": "template-email", "inputs": {"email": {"value": mail}}}
    return {"type": "function_email", "config": config}


async def connection_of(agent: Agent, kind: str) -> str:
    (only,) = (await agent.call("integrations-list", kind=kind))["items"]
    return str(only["id"])


async def channel_named(agent: Agent, connection: str, name: str) -> str:
    """The id of a channel in which the app is."""
    (found,) = (await agent.call("integrations-channels-retrieve", id=connection, search=name))["items"]
    assert (found["name"], found["is_member"]) == (name, True)
    return str(found["id"])


async def walked(agent: Agent, workflow: str, event: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What each action came to in a test run that follows nextActionId to the exit."""
    came: list[dict[str, Any]] = []
    place: dict[str, str] = {}
    while True:
        tested = await agent.call("workflows-test-run", id=workflow, globals={"event": event}, **place)
        came.append(tested)
        if tested["nextActionId"] is None:
            return came
        place = {"current_action_id": tested["nextActionId"]}
        assert len(came) < 10


async def tried_and_enabled(agent: Agent, workflow: str, event: Mapping[str, Any]) -> None:
    """As the skill says: the whole way with a sample, then, once the person confirmed it, enabled."""
    came = await walked(agent, workflow, event)
    assert [one["nextActionId"] for one in came] == ["create_task", "notify", "exit", None]
    assert all(one["status"] != "skipped" for one in came)
    assert (await agent.call("workflows-enable", id=workflow))["status"] == "active"


async def completed(agent: Agent, workflow: str) -> dict[str, Any]:
    """The one run of a workflow, once it has ended, with its steps."""

    async def look() -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = (await agent.call("workflows-list-invocations", id=workflow))["items"]
        return found

    (run,) = await eventually(look, lambda rows: any(one["finished_at"] for one in rows))
    assert run["status"] == "completed", run["reason"]
    whole: dict[str, Any] = await agent.call("workflows-get-invocation", id=run["id"])
    return whole


# Three loops


async def test_a_loop_of_github_reports_to_slack(around: Surroundings) -> None:
    async with agent_at(around.api.service.url, around.editor) as agent:
        hub, slack_id = await connection_of(agent, "github"), await connection_of(agent, "slack")
        repositories = await agent.call("integrations-github-repos-retrieve", id=hub, search="acme/widgets")
        assert [one["full_name"] for one in repositories["items"]] == ["acme/widgets"]
        trigger = listens(
            "$github_event_received",
            exact("repository", "acme/widgets"),
            exact("event_type", "issues"),
            exact("actor_access", "write"),
            exact("action", "opened"),
        )
        document = loop(
            "Triage",
            "Read the title of the issue from the triggering event and say what it is about.",
            trigger,
            to_slack(slack_id, await channel_named(agent, slack_id, "general"), "Triage"),
        )
        made = await agent.call("workflows-create", **document)
        sample = {"repository": "acme/widgets", "event_type": "issues", "actor_access": "write", "action": "opened"}
        event = {"event": "$github_event_received", "properties": sample}
        other = {**event, "properties": {**sample, "action": "closed"}}
        tested = await agent.call("workflows-test-run", id=made["id"], globals={"event": other})
        assert tested["status"] == "skipped"
        await tried_and_enabled(agent, made["id"], event)
        assert around.workspace.texts() == []  # nothing of a test run leaves
        delivery = await around.api.deliver(f"/hooks/github/{hub}", "issues", issue())
        run = await completed(agent, made["id"])
        assert run["delivery"] == delivery
        assert around.workspace.texts() == [f"Triage finished: {REPORT}"]
        explained = await agent.call("deliveries-explain", id=delivery, workflow=made["id"])
        assert [one["passed"] for one in explained["verdicts"]] == [True]
        trace = await agent.call("tasks-trace", id=run["tasks"][0]["id"])
        assert "<triggering_event>" in trace["request"]["opening"]


async def test_a_loop_of_slack_reports_by_mail(around: Surroundings) -> None:
    async with agent_at(around.api.service.url, around.editor, "legacy") as agent:
        slack_id, mail_id = await connection_of(agent, "slack"), await connection_of(agent, "smtp")
        channel = await channel_named(agent, slack_id, "general")
        trigger = listens("$slack_message_received", exact("channel", channel), unset("bot_id"), unset("thread_ts"))
        prompt = "Read the message from the text property of the triggering event and answer it."
        document = loop("Answers", prompt, trigger, by_mail(mail_id, "ada@example.com", "Answers"))
        made = await agent.call("workflows-create", **document)
        sample = {"channel": channel, "text": "is it down?", "bot_id": None, "thread_ts": None}
        event = {"event": "$slack_message_received", "properties": sample}
        await tried_and_enabled(agent, made["id"], event)
        assert around.mails.mails == []
        ts = f"{datetime.now(UTC).timestamp():.6f}"
        body = json.dumps(post(f"Ev{uuid.uuid4().hex}", ts, channel=channel)).encode()
        hook = f"/hooks/slack/{slack_id}"
        status, told = await around.api.call("POST", hook, raw=body, headers=signed(body))
        assert status == 202, told
        await completed(agent, made["id"])
        (mail,) = around.mails.mails
        assert (mail["To"], mail["Subject"]) == ("ada@example.com", "Answers finished")
        assert REPORT in mail.get_content()


async def test_a_loop_on_a_schedule_reports_to_slack(around: Surroundings) -> None:
    async with agent_at(around.api.service.url, around.editor) as agent:
        slack_id = await connection_of(agent, "slack")
        channel = await channel_named(agent, slack_id, "general")
        prompt = "Say what is planned for today."
        document = loop("Morning", prompt, {"type": "schedule"}, to_slack(slack_id, channel, "Morning"))
        made = await agent.call("workflows-create", **document)
        timing = {"starts_at": _berlin(hours=1), "timezone": "Europe/Berlin", "rrule": "FREQ=DAILY;INTERVAL=1"}
        previewed = await agent.call("workflows-schedule-preview", workflow_id=made["id"], count=2, **timing)
        assert len(previewed["items"]) == 2
        often = {**timing, "rrule": "FREQ=HOURLY;INTERVAL=2"}
        assert (await agent.refused("workflows-schedule-create", workflow_id=made["id"], **often))["path"] == "rrule"
        schedule = await agent.call("workflows-schedule-create", workflow_id=made["id"], **timing)
        await tried_and_enabled(agent, made["id"], {"event": "$scheduled", "properties": {}})
        place, before = {"workflow_id": made["id"], "schedule_id": schedule["id"]}, len(around.workspace.texts())
        first = _berlin(seconds=3)
        moved = await agent.call("workflows-update-schedule", starts_at=first, **place)
        assert datetime.fromisoformat(moved["next_run_at"]) == datetime.fromisoformat(first)
        await completed(agent, made["id"])
        assert around.workspace.texts()[before:] == [f"Morning finished: {REPORT}"]
        (occurrence,) = (await agent.call("workflows-schedule-occurrences", **place))["items"]
        assert datetime.fromisoformat(occurrence["at"]) == datetime.fromisoformat(first)
        assert (await agent.call("workflows-schedule-pause", **place))["status"] == "paused"
        assert (await agent.call("workflows-schedule-resume", **place))["status"] == "active"
        assert await agent.call("workflows-schedule-delete", **place) == {}
        assert (await agent.call("workflows-schedule-list", workflow_id=made["id"]))["items"] == []


def _berlin(**later: int) -> str:
    return (datetime.now(ZoneInfo("Europe/Berlin")) + timedelta(**later)).isoformat(timespec="seconds")
