"""Connectors, skills and spaces of tasks, from what is saved to what the agent reads, on both databases."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from loops.agent.models.scripted import ScriptedTurn
from loops.errors import DefinitionError
from loops.store import task_queries
from tests.doubles.mcp_servers import TOKEN, Loopback, over_http, sdk_server
from tests.integration.running import PROJECT, Running, issue, log_action, running, workflow
from tests.integration.serving import Api, fresh_token
from tests.integration.tasking import calls, ends, request_of, rounds_of, scripted, task_action, task_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

SKILL = "---\nname: triage\ndescription: How we sort issues.\n---\n\nAsk for the version first.\n"


@dataclass
class Scripts:
    turns: Sequence[ScriptedTurn] = (ends(),)

    def make(self) -> list[ScriptedTurn]:
        return list(self.turns)


@dataclass
class Office:
    """A service, its API, an MCP server, and the connection to that."""

    running: Running
    api: Api
    scripts: Scripts
    server: Loopback
    connector: str

    async def task(self, name: str, *turns: ScriptedTurn, **inputs: Any) -> Any:
        """The task of a run of a workflow with these inputs, once it is over."""
        self.scripts.turns = turns or (ends(),)
        step = task_action(inputs=inputs)
        flow = await self.running.create(workflow(name, step, repository=f"acme/{name}"))
        run_id = await self.running.started(flow.id, issue(f"acme/{name}"))
        await self.running.until(run_id, "completed", "failed")
        return await task_of(self.running, run_id)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def office(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    scripts = Scripts()
    folder = tmp_path_factory.mktemp("equipment")
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(over_http(sdk_server()))
        started = await stack.enter_async_context(
            running(folder, module_database_url, wiring=scripted(scripts.make), task_cost="5", price="3/15")
        )
        session = await stack.enter_async_context(aiohttp.ClientSession(started.service.url))
        api = Api(session, PROJECT, await fresh_token(started.service, PROJECT, "admin"), started.service)
        settings = {"url": server.url, "token": TOKEN}
        made = await api.post("integrations", {"kind": "mcp", "name": "Our Pages", "settings": settings})
        yield Office(started, api, scripts, server, made["id"])


async def test_an_agent_searches_through_a_connector_whose_list_of_tools_is_kept_with_the_task(office):
    task = await office.task(
        "searches",
        calls("our_pages__search", {"query": "export"}),
        calls("our_pages__rename", {"page": "a", "name": "b"}),
        ends(),
        connectors=[office.connector],
    )
    assert (task.status, task.ending) == ("completed", "done")
    first, second, _ = await rounds_of(office.running, task.id)
    found = json.loads(first["results"][0]["text"])
    assert found["result"]["text"] == "two pages about export"
    assert json.loads(second["results"][0]["text"])["error"]["code"] == "UNKNOWN_TOOL"
    given = await office.running.read(lambda connection: task_queries.given_of(connection, task.id))
    assert [one["name"] for one in given["connectors"][office.connector]] == ["our_pages__fail", "our_pages__search"]
    assert set(office.server.seen) == {f"Bearer {TOKEN}"}
    assert TOKEN not in json.dumps([first, second, given])


async def test_with_full_scope_writers_are_there_and_unknown_senders_start_no_such_loop(office):
    task = await office.task(
        "renames", calls("our_pages__rename", {"page": "a", "name": "b"}), ends(),
        connectors=[office.connector], posthog_mcp_scopes="full",
    )  # fmt: skip
    first, _ = await rounds_of(office.running, task.id)
    assert json.loads(first["results"][0]["text"])["result"]["text"] == "a is b now"


async def test_connectors_that_are_not_shared_are_refused_when_saved_and_when_run(office):
    step = task_action(inputs={"connectors": [office.connector, 999, "x"]})
    with pytest.raises(DefinitionError, match="not shared with the project or disabled") as refused:
        await office.running.create(workflow("strangers", step))
    (fault,) = refused.value.faults
    assert (fault.path, fault.message) == (
        "actions[1].config.inputs.connectors",
        "MCP server(s) not shared with the project or disabled: [999, x]",
    )
    made = await office.api.post(
        "integrations", {"kind": "mcp", "name": "brief", "settings": {"url": office.server.url, "token": TOKEN}}
    )
    flow = await office.running.create(
        workflow("brief", task_action(inputs={"connectors": [made["id"]]}), repository="acme/brief")
    )
    status, changed = await office.api.call("PATCH", f"integrations/{made['id']}", {"settings": {"enabled": "no"}})
    assert (status, changed["secrets"]) == (200, ["token"])
    assert [one["id"] for one in (await office.api.get("mcp-connections"))["items"]] == [office.connector]
    run_id = await office.running.started(flow.id, issue("acme/brief"))
    row = await office.running.until(run_id, "failed")
    assert f"MCP server(s) not shared with the project or disabled: [{made['id']}]" in row["reason"]
    status, error = await office.api.refused("POST", f"workflows/{flow.id}/enable")
    assert (status, error["path"]) == (400, "actions[1].config.inputs.connectors")


async def test_a_server_that_is_not_there_ends_the_task_and_the_check_says_why(office):
    gone = await office.api.post(
        "integrations", {"kind": "mcp", "name": "gone", "settings": {"url": "http://127.0.0.1:1/mcp"}}
    )
    task = await office.task("gone", connectors=[gone["id"]])
    assert (task.status, task.ending) == ("failed", "not_equipped")
    assert "gone: cannot be reached" in task.reason
    assert (task.result or {})["mend"]
    told = await office.api.get(f"integrations/{gone['id']}/check")
    assert (told["healthy"], told["checks"][0]["state"]) == (False, "failed")


async def test_the_check_of_a_connector_tells_what_tasks_are_offered(office):
    settings = {"url": office.server.url, "token": TOKEN, "tools": "search,rename,none", "reads": "search"}
    made = await office.api.post("integrations", {"kind": "mcp", "name": "few", "settings": settings})
    told = await office.api.get(f"integrations/{made['id']}/check")
    server, tools, absent, left = (one["message"] for one in told["checks"])
    assert (told["healthy"], server) == (True, "it is reached and lists 3 tools")
    assert tools == "a task that only reads is offered few__search; with full scope also few__rename"
    assert absent.endswith("does not list: none")
    assert left == "fail: the connection does not list it"


async def test_skills_are_shown_by_name_and_read_whole(office):
    files = {"references/words.md": "x" * 20_000}
    made = await office.api.post("skills", {"text": SKILL, "files": files})
    assert (made["name"], made["description"], made["paths"]) == ("triage", "How we sort issues.", [*files])
    asked = [
        calls("skill_read", {"name": "triage"}),
        calls("skill_read", {"name": "triage", "file": "references/words.md", "start": 19_990}),
        calls("skill_read", {"name": "triage", "file": "../secrets"}),
        calls("skill_read", {"name": "other"}),
    ]
    task = await office.task("skilled", *asked, ends(), skills=["triage"])
    request = await request_of(office.running, task.id)
    assert "## Skills\n" in request["opening"]
    assert '- triage: "How we sort issues."' in request["opening"]
    assert "version first" not in request["opening"]
    rounds = await rounds_of(office.running, task.id)
    whole, piece, outside, other = (json.loads(one["results"][0]["text"]) for one in rounds[:4])
    assert whole["result"]["text"].endswith("Ask for the version first.\n")
    assert whole["result"]["files"] == ["SKILL.md", "references/words.md"]
    assert (piece["result"]["text"], piece["result"]["next_start"]) == ("x" * 10, None)
    assert [outside["error"]["code"], other["error"]["code"]] == ["SKILL_NO_SUCH_FILE", "SKILL_NOT_GIVEN"]


async def test_a_skill_that_nobody_has_is_refused_with_the_nearest_name(office):
    await office.api.call("PUT", "skills/release-notes", {"text": SKILL.replace("triage", "release-notes")})
    named = task_action(inputs={"skills": ["release_note"]})
    with pytest.raises(DefinitionError) as refused:
        await office.running.create(workflow("unskilled", named))
    (fault,) = refused.value.faults
    assert (fault.message, fault.hint) == (
        "skill(s) not in the project: [release_note]",
        'did you mean "release-notes"?',
    )
    in_repository = task_action(inputs={"skills": ["release_note"], "repository": "acme/widgets"})
    draft = workflow("in it", in_repository, status="draft")
    saved = await office.running.services.workflows.create(PROJECT, draft, "t")
    (warned,) = (one.message for one in saved.warnings if one.path.endswith("skills"))
    assert "have to lie in the repository" in warned
    flow = await office.running.create(
        workflow("forgets", task_action(inputs={"skills": ["release-notes"]}), repository="acme/forgets")
    )
    assert (await office.api.call("DELETE", "skills/release-notes"))[0] == 204
    run_id = await office.running.started(flow.id, issue("acme/forgets"))
    assert "skill(s) not in the project" in (await office.running.until(run_id, "failed"))["reason"]


async def test_a_space_lists_its_loops_and_every_run_that_is_listed_there(office):
    office.scripts.turns = [ends()]
    step = task_action(inputs={"channel": "s7|Support"})
    flow = await office.running.create(workflow("posts", step, repository="acme/posts"))
    run_id = await office.running.started(flow.id, issue("acme/posts"))
    await office.running.until(run_id, "completed")
    before = log_action("before", "!")
    other = await office.running.create(workflow("also", before, step, repository="acme/also", status="draft"))

    spaces = (await office.api.get("spaces"))["items"]
    assert [(one["id"], one["name"]) for one in spaces] == [("s7", "Support")]
    whole = await office.api.get("spaces/s7")
    assert {one["id"] for one in whole["workflows"]} == {flow.id, other.id}
    assert [(one["id"], one["space"]) for one in whole["items"]] == [(run_id, "s7")]
    assert [one["id"] for one in (await office.api.get("runs", space="s7"))["items"]] == [run_id]
    listed = (await office.api.get("workflows", space="s7"))["items"]
    assert {one["id"]: one["space"] for one in listed} == {flow.id: "s7|Support", other.id: "s7|Support"}
    assert (await office.api.refused("GET", "runs?space=s"))[0] == 404
    assert (await office.api.refused("GET", "spaces/s"))[0] == 404
