"""`loops mcp`: the same tools over standard input and output, as agents start it."""

import asyncio
import sys
from pathlib import Path

import aiohttp
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from server.app import Service
from server.mcp.tools import TOOLS
from tests.integration.agent import Agent
from tests.integration.serving import fresh_project, fresh_token, listening, running, settings_for
from tests.unit.documentation import ROOT


def command(folder: Path, *arguments: str, **environ: str) -> StdioServerParameters:
    """`loops mcp` in a folder, as an agent has it in its configuration."""
    environment = {"PYTHONPATH": str(ROOT), "LOOPS_DATA_DIR": str(folder), **environ}
    args = ["-m", "server", "mcp", *arguments]
    return StdioServerParameters(command=sys.executable, args=args, cwd=str(folder), env=environment)


async def failed(parameters: StdioServerParameters) -> str:
    """What it says on standard error when it does not start; its output stays empty."""
    process = await asyncio.create_subprocess_exec(
        parameters.command,
        *parameters.args,
        cwd=parameters.cwd,
        env=parameters.env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, said = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, output) == (1, b"")
    assert b"Traceback" not in said
    return said.decode()


async def test_it_asks_the_service_of_the_data_folder_and_outlives_a_restart_of_it(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, f"sqlite:///{tmp_path / 'loops.db'}")
    service = Service(settings)
    await service.start()
    try:
        async with Client(command(tmp_path), mode="legacy") as client:
            agent = Agent(client)
            assert list(await agent.tools()) == [tool.name for tool in TOOLS]
            made = await agent.call("workflows-create", **listening("by an agent", status="draft"))
            with pytest.raises(MCPError, match="there is no tool 'workflows-delete'"):
                await client.call_tool("workflows-delete", {})
            await service.stop()
            error = await agent.refused("workflows-get", id=made["id"])
            assert (error["code"], error["hint"]) == ("external.error", "it has to run: loops serve")
            service = Service(settings)
            await service.start()
            assert (await agent.call("workflows-get", id=made["id"]))["name"] == "by an agent"
    finally:
        await service.stop()


async def test_a_service_elsewhere_is_asked_with_a_token_and_its_role(tmp_path: Path) -> None:
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    here.mkdir()
    async with (
        running(settings_for(elsewhere, f"sqlite:///{tmp_path / 'loops.db'}")) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        api = await fresh_project(service, session)
        token = await fresh_token(service, api.project, "editor")
        place = ("--url", service.url, "--project", api.project)
        async with Client(command(here, *place, "--read-only", LOOPS_TOKEN=token)) as client:
            agent = Agent(client)
            shown = await agent.tools()
            assert list(shown) == [tool.name for tool in TOOLS if tool.shown_to("editor", read_only=True)]
            assert (await agent.call("workflows-list")) == {"items": [], "next": None}
            assert (await agent.refused("workflows-create", name="x", actions=[]))["code"] == "access.forbidden"
        revoked = command(here, *place, LOOPS_TOKEN="loops_" + "x" * 43)
        assert "the token is not known or was revoked" in await failed(revoked)


async def test_it_says_why_it_does_not_start(tmp_path: Path) -> None:
    said = await failed(command(tmp_path))
    assert "no service runs on, and no database is in" in said
