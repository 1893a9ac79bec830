"""Real agents at /mcp: Claude Code and Codex list the tools and call one, each with a model that is played."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from server.mcp.results import NOTICE
from server.mcp.tools import TOOLS
from tests.doubles.model_servers import Answer, serving
from tests.integration.agent import agent_at
from tests.integration.serving import Api, fresh_project, listening, running, settings_for

PATIENCE = 90.0
ASKED = "What arrived here?"
REPORT = "Nothing arrived yet."


def installed(name: str) -> str:
    """Where an agent is; the test is skipped where it is not."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed on this machine")
    return found


@asynccontextmanager
async def service_with_a_loop(folder: Path) -> AsyncIterator[Api]:
    """A service whose protocol has been asked for once: agents wait only so long for their servers."""
    settings = settings_for(folder / "loops", f"sqlite:///{folder / 'loops.db'}")
    async with running(settings) as service, aiohttp.ClientSession(service.url) as session:
        api = await fresh_project(service, session)
        await api.post("workflows", listening("triage of issues"))
        async with agent_at(service.url, api.token) as first:
            await first.tools()
        yield api


async def ran(home: Path, command: list[str], **environ: str) -> list[dict[str, Any]]:
    """The events that an agent prints, one JSON object a line."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), **environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, (output[-2000:], said[-2000:])
    return [json.loads(line) for line in output.decode().splitlines() if line.startswith("{")]


async def test_claude_code_lists_the_tools_and_calls_one(tmp_path: Path) -> None:
    claude, home = installed("claude"), tmp_path / "home"
    home.mkdir()
    call = "mcp__loops__deliveries-list"
    # Where the servers are slow the first call is told that they are still connecting.
    answers = (Answer(text="Looking.", calls=[(call, "{}")]), Answer(calls=[(call, "{}")]), Answer(text=REPORT))
    async with service_with_a_loop(tmp_path) as api, serving("anthropic", *answers) as model:
        server = {"type": "http", "url": f"{api.service.url}/mcp", "headers": {"Authorization": f"Bearer {api.token}"}}
        options = ["--output-format", "stream-json", "--verbose", "--model", "m", "--max-turns", "5"]
        options += ["--strict-mcp-config", "--mcp-config", json.dumps({"mcpServers": {"loops": server}})]
        options += ["--setting-sources", "", "--allowedTools", call]
        switches = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ANTHROPIC_API_KEY": "none"}
        events = await ran(home, [claude, "-p", ASKED, *options], ANTHROPIC_BASE_URL=model.base_url, **switches)
        assert (events[-1]["is_error"], events[-1]["result"]) == (False, REPORT)
        shown = {tool["name"] for tool in model.requests[-1]["tools"]}
        assert {f"mcp__loops__{tool.name}" for tool in TOOLS} <= shown
        assert NOTICE in _texts(model.requests[-1]["messages"])


async def test_codex_lists_the_tools_and_calls_one(tmp_path: Path) -> None:
    codex, home = installed("codex"), tmp_path / "home"
    home.mkdir()
    async with service_with_a_loop(tmp_path) as api, _responses() as (address, requests):
        (home / "config.toml").write_text(
            'model = "m"\nmodel_provider = "played"\napproval_policy = "never"\n'
            f'[model_providers.played]\nname = "played"\nbase_url = "{address}"\nwire_api = "responses"\n'
            f'[mcp_servers.loops]\nurl = "{api.service.url}/mcp"\nbearer_token_env_var = "LOOPS_TOKEN"\n'
        )
        command = [codex, "exec", "--json", "--skip-git-repo-check", "-s", "read-only", ASKED]
        events = await ran(home, command, CODEX_HOME=str(home), LOOPS_TOKEN=api.token)
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        (called,) = [item for item in items if item["type"] == "mcp_tool_call"]
        assert (called["tool"], called["status"], called["error"]) == ("deliveries-list", "completed", None)
        (tools,) = [one["tools"] for one in requests[0]["tools"] if one.get("name") == "mcp__loops"]
        assert {one["name"] for one in tools} == {tool.name.replace("-", "_") for tool in TOOLS}
        assert NOTICE in _texts(requests[-1]["input"][-1])


def _texts(value: Any) -> str:
    """Every text in a value, with the JSON in them opened."""
    match value:
        case str():
            return value.replace('\\"', '"')
        case Mapping():
            return " ".join(map(_texts, value.values()))
        case list():
            return " ".join(map(_texts, value))
        case _:
            return ""


@asynccontextmanager
async def _responses() -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A model behind OpenAI's Responses API: it calls a tool, and then reports. Its address, and what it was asked."""
    requests: list[dict[str, Any]] = []
    call = {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "deliveries_list", "arguments": "{}"}
    report = {"type": "message", "role": "assistant", "id": "m1", "content": [{"type": "output_text", "text": REPORT}]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}

    async def respond(request: web.Request) -> web.StreamResponse:
        requests.append(await request.json())
        item = {**call, "namespace": "mcp__loops"} if len(requests) == 1 else report
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in (
            {"type": "response.created", "response": {"id": "r1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "r1", "usage": usage}},
        ):
            await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_post("/v1/responses", respond)
    async with TestServer(app) as server:
        yield str(server.make_url("/v1")), requests
