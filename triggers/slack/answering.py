"""What commands and interactions are answered with, by bolt, once they are stored."""

import logging
import re

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.context.ack.async_ack import AsyncAck
from slack_sdk.web.async_client import AsyncWebClient

from triggers.slack.ignored import NO_COMMANDS

_ANYTHING = re.compile("")


def answering_app() -> AsyncApp:
    """Bolt's dispatch over our answers. It verifies nothing: what comes to it has been, by signature or by socket."""
    app = AsyncApp(
        name="loops",
        client=AsyncWebClient(),
        signing_secret="",
        authorize=_authorized,
        request_verification_enabled=False,
        ignoring_self_events_enabled=False,
        logger=logging.getLogger("slack_bolt"),
    )
    app.command(_ANYTHING)(_no_commands)
    for interaction in (app.action, app.options, app.shortcut, app.view):
        interaction(_ANYTHING)(_noted)
    return app


async def _authorized(enterprise_id: str | None = None, team_id: str | None = None) -> AuthorizeResult:
    """No token: the answers here need none, and Slack is not asked."""
    return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id)


async def _no_commands(ack: AsyncAck) -> None:
    await ack(NO_COMMANDS)


async def _noted(ack: AsyncAck) -> None:
    await ack()
