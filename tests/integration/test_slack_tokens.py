"""What Slack says about tokens, and what the doctor makes of it: SL-31."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from loops.connections.secrets import SecretBox
from loops.connections.slack import SCOPES, identify, missing_scopes, open_socket
from loops.errors import ExternalError
from loops.store import connections
from loops.store.database import engine_for, migrate
from server.checks.check import Check
from server.cli.doctor import examine
from tests.doubles.site import NOW
from tests.doubles.slack import TOKEN
from tests.doubles.slack_socket import APP_TOKEN, SlackSocketDouble, slack_sockets

KEY = "the key of an installation " + "k" * 20


@pytest.fixture
async def slack() -> AsyncIterator[SlackSocketDouble]:
    async with slack_sockets() as double:
        yield double


async def test_a_bot_token_tells_whose_it_is_and_what_it_may_do(slack: SlackSocketDouble) -> None:
    found = await identify(TOKEN, slack.url)
    assert found.settings() == {
        "team_id": "T0ACME",
        "workspace_url": "https://acme.slack.com",
        "user_id": "U0LOOPS",
        "bot_id": "B0LOOPS",
        "app_id": "A0LOOPS",
    }
    assert found.scopes == set(SCOPES)
    assert missing_scopes(found.scopes) == []
    assert missing_scopes(found.scopes - {"chat:write", "users:read"}) == ["chat:write", "users:read"]


async def test_an_app_token_tells_where_the_socket_is(slack: SlackSocketDouble) -> None:
    assert (await open_socket(APP_TOKEN, slack.url)).startswith("ws://127.0.0.1:")


async def test_a_refusal_is_told_with_its_mend_and_without_the_token(slack: SlackSocketDouble) -> None:
    for asked in (identify("xoxb-other", slack.url), open_socket("xapp-other", slack.url)):
        with pytest.raises(ExternalError, match="is refused: invalid_auth") as caught:
            await asked
        assert "copy it from the app's settings" in caught.value.hint
        assert "other" not in caught.value.message


async def test_slack_may_ask_for_patience(slack: SlackSocketDouble) -> None:
    slack.limited = 1
    with pytest.raises(ExternalError, match="ratelimited") as caught:
        await open_socket(APP_TOKEN, slack.url)
    assert caught.value.retry_after == 1


@pytest.mark.parametrize(
    ("status", "body", "content_type", "told"),
    [
        (200, "<html>", "text/html", "no API of Slack's"),
        (502, "bad gateway", "text/plain", "no API of Slack's"),
        (200, "[]", "application/json", "no API of Slack's"),
        (200, "{", "application/json", "no API of Slack's"),
        (404, "{}", "application/json", "no API of Slack's: status 404"),
        (200, '{"ok": true}', "application/json", "gives no address of a socket"),
        (200, '{"ok": false, "error": "missing_scope", "needed": "connections:write", "provided": ""}',
         "application/json", "missing_scope, needed connections:write, provided none"),
        (200, '{"ok": false, "error": 5}', "application/json", "no API of Slack's"),
    ],
)  # fmt: skip
async def test_what_is_no_answer_of_slacks_is_told_in_words(
    status: int, body: str, content_type: str, told: str
) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, text=body, content_type=content_type)

    application = web.Application()
    application.router.add_post("/api/apps.connections.open", answer)
    async with TestServer(application) as server:
        with pytest.raises(ExternalError, match=told) as caught:
            await open_socket(APP_TOKEN, str(server.make_url("/api")))
        assert caught.value.hint


async def test_a_slack_that_cannot_be_reached_or_does_not_answer_is_told() -> None:
    with pytest.raises(ExternalError, match=r"cannot be reached for auth\.test"):
        await identify(TOKEN, "http://127.0.0.1:1/api")

    async def sleep(_request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    application = web.Application()
    application.router.add_post("/api/auth.test", sleep)
    async with TestServer(application) as server:
        with pytest.raises(ExternalError, match=r"cannot be reached for auth\.test: TimeoutError"):
            await identify(TOKEN, str(server.make_url("/api")), seconds=0.1)


def installed(folder: Path, **settings: Mapping[str, str]) -> dict[str, str]:
    """An installation with Slack connections by name; its environment."""
    url = f"sqlite:///{folder / 'loops.db'}"
    migrate(url)
    box, engine = SecretBox([KEY]), engine_for(url)
    with engine.begin() as connection:
        for name, given in settings.items():
            secrets = {key: value for key, value in given.items() if key.endswith(("token", "secret"))}
            config = {key: value for key, value in given.items() if key not in secrets}
            connections.insert(
                connection, project_id="default", kind="slack", name=name, config=config,
                secrets=box.seal(secrets), now=NOW,
            )  # fmt: skip
    engine.dispose()
    return {"LOOPS_DATA_DIR": str(folder), "LOOPS_SECRET_KEY": KEY}


async def examined(environ: Mapping[str, str]) -> dict[str, Check]:
    found = await asyncio.to_thread(lambda: list(examine(None, environ)))
    return {check.name: check for check in found if check.name.startswith("slack")}


async def test_sl_31_the_doctor_names_the_scopes_that_a_bot_lacks_and_that_it_must_be_installed_anew(
    slack: SlackSocketDouble, tmp_path: Path
) -> None:
    slack.scopes = slack.scopes.replace("chat:write,", "").replace("groups:history,", "")
    environ = installed(tmp_path, work={"bot_token": TOKEN, "api_base_url": slack.url})
    (check,) = (await examined(environ)).values()
    assert (check.name, check.state) == ("slack work, bot token", "warning")
    assert check.message == (
        "it lacks scopes: groups:history, to hear messages in private channels; chat:write, to post messages"
    )
    assert "install the app anew" in check.hint


async def test_the_doctor_tells_good_tokens_from_broken_ones(slack: SlackSocketDouble, tmp_path: Path) -> None:
    base = slack.url
    environ = installed(
        tmp_path,
        good={"bot_token": TOKEN, "app_token": APP_TOKEN, "api_base_url": base},
        broken={"bot_token": "xoxb-old", "app_token": "xapp-old", "api_base_url": base},
        http={"signing_secret": "s" * 32},
    )
    checks = await examined(environ)
    assert {name: check.state for name, check in checks.items()} == {
        "slack good, bot token": "ok",
        "slack good, app token": "ok",
        "slack broken, bot token": "failed",
        "slack broken, app token": "failed",
    }
    assert "invalid_auth" in checks["slack broken, app token"].message
    assert checks["slack good, bot token"].message == "it is U0LOOPS in https://acme.slack.com, with every scope"
