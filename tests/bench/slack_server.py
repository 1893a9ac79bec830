"""The server that slack.py measures us against: slack-bolt's AsyncApp on aiohttp, as its documentation has it."""

import asyncio
import gc
import logging
import sys
from typing import Any

import uvloop
from aiohttp import web
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult

SECRET = "bench-signing-secret"


async def authorized(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
    """As an installation that is at hand: Slack is not asked."""
    return AuthorizeResult(
        enterprise_id=enterprise_id, team_id=team_id, bot_id="B0LOOPS", bot_user_id="U0LOOPS", bot_token="xoxb-1"
    )


async def heard(event: dict[str, Any]) -> None:
    """A listener that does nothing."""


async def main() -> None:
    logging.disable(logging.WARNING)
    app = AsyncApp(signing_secret=SECRET, authorize=authorized)
    app.event("message")(heard)
    runner = web.AppRunner(app.web_app("/hook"), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(sys.argv[1]), backlog=1024).start()
    gc.collect()
    gc.freeze()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
