"""`loops mcp`: the same tools over standard input and output, as agents start it."""

import asyncio
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from server.app import Service
from server.cli import main
from server.mcp.tools import TOOLS
from tests.integration.agent import Agent
from tests.integration.serving import fresh_token, listening, settings_for
from tests.unit.documentation import ROOT


def command(folder: Path, *arguments: str, **environ: str) -> StdioServerParameters:
    """`loops mcp` in a folder, as an agent has it in its configuration."""
    environment = {"PYTHONPATH": str(ROOT), "LOOPS_DATA_DIR": str(folder), **environ}
    args = ["-m", "server", "mcp", *arguments]
    return StdioServerParameters(command=sys.executable, args=args, cwd=str(folder), env=environment)


async def test_it_asks_the_service_and_outlives_a_restart_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_for(tmp_path / "data", f"sqlite:///{tmp_path / 'loops.db'}")
    service = Service(settings)
    await service.start()
    try:
        async with Client(command(settings.data_dir), mode="legacy") as client:
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
        # By address, with a token: what its role may, and nothing of it that changes something.
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        token = await fresh_token(service, "default", "editor")
        async with Client(command(elsewhere, "--url", service.url, "--read-only", LOOPS_TOKEN=token)) as client:
            agent = Agent(client)
            assert list(await agent.tools()) == [tool.name for tool in TOOLS if tool.shown_to("editor", read_only=True)]
            assert (await agent.call("workflows-get", id=made["id"]))["name"] == "by an agent"
            assert (await agent.refused("workflows-archive", id=made["id"]))["code"] == "access.forbidden"
        monkeypatch.setenv("LOOPS_TOKEN", "loops_" + "x" * 43)
        assert await asyncio.to_thread(main, ["mcp", "--url", service.url]) == 1
        assert "the token is not known or was revoked" in capsys.readouterr().err
    finally:
        await service.stop()


def test_it_says_why_it_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOOPS_DATA_DIR", str(tmp_path))
    assert main(["mcp"]) == 1
    assert "no service runs on, and no database is in" in capsys.readouterr().err
    monkeypatch.setenv("LOOPS_TOKEN", "loops_" + "x" * 43)
    assert main(["mcp", "--url", "http://127.0.0.1:9"]) == 1
    assert capsys.readouterr().err == "error: http://127.0.0.1:9: does not answer\nhint: it has to run: loops serve\n"
