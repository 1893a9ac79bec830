"""SL-14: what a loop posts to the channel that it listens to comes back as an event, and starts nothing."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from loops.store import connections
from server.app import Wiring
from tests.doubles.slack import TOKEN
from tests.doubles.slack_socket import APP_TOKEN, SlackSocketDouble, slack_sockets, until
from tests.integration.running import PROJECT, Running, eventually, running
from tests.integration.slack_loops import config_of, connect, deliveries_of, listening, post
from tests.integration.test_slack_sockets import FAST

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with running(
        tmp_path_factory.mktemp("echo"), module_database_url, wiring=Wiring(slack=FAST), runs="4"
    ) as started:
        yield started


def comes_back(channel: str, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The event that Slack makes of what the app posted."""
    told = {key: message[key] for key in ("text", "blocks", "metadata")}
    thread = {"thread_ts": message["thread_ts"]} if "thread_ts" in message else {}
    event = post(f"Ev{uuid.uuid4().hex}", message["ts"], "message__own", channel=channel, **told)
    del event["event"]["thread_ts"], event["event"]["parent_user_id"]
    event["event"] |= thread
    return event


def answering(channel: str, connection: int, **inputs: str) -> dict[str, Any]:
    """A workflow that answers each message of a channel in it."""
    document = listening(channel, channel)
    given = {"slack_workspace": connection, "channel": channel, "text": "heard {event.properties.text}", **inputs}
    document["actions"][1]["config"] = {
        "template_id": "template-slack",
        "inputs": {key: {"value": value} for key, value in given.items()},
    }
    return document


@pytest.mark.parametrize(
    ("inputs", "parts", "status"),
    [
        ({}, 1, "completed"),
        ({"thread_ts": "{event.properties.ts}"}, 1, "completed"),
        ({"text": "a long line of text\n\n" * 1400}, 3, "completed"),
        ({"text": "{event.properties.nothing}"}, 1, "failed"),
    ],
    ids=["in the channel", "in the thread", "in several parts", "an alert"],
)
@pytest.mark.parametrize("known", [True, False], ids=["its app is known", "its app is not known"])
async def test_sl_14_every_post_of_a_loop_that_comes_back_starts_no_further_run(
    live: Running, inputs: dict[str, str], parts: int, status: str, known: bool
) -> None:
    channel = f"C{uuid.uuid4().hex[:10].upper()}"
    async with slack_sockets() as slack:
        slack.posted[channel], slack.echo = [], comes_back
        if not known:
            slack.bot_tokens.clear()  # whose the token is stays unknown; posting works
        number = await connect(live, channel, app_token=APP_TOKEN, bot_token=TOKEN, api_base_url=slack.url)
        if known:
            await eventually(lambda: config_of(live, number), lambda found: "bot_id" in found)
        flow = (await live.create(answering(channel, number, **inputs))).id
        await until(lambda: bool(slack.sockets))
        try:
            await _one_run_alone(live, slack, channel, flow, number, parts, status)
        finally:
            await live.write(lambda c: connections.delete(c, PROJECT, number))
            await until(lambda: not slack.sockets)


async def _one_run_alone(
    live: Running, slack: SlackSocketDouble, channel: str, flow: str, number: int, parts: int, status: str
) -> None:
    await slack.deliver(post("EvONE", "1793610000.000100", channel=channel))
    (run,) = await eventually(lambda: live.runs(flow), bool)
    await live.until(run["id"], status)
    await until(lambda: len(slack.posted[channel]) == parts)

    await asyncio.gather(*slack.echoes)
    rows = await eventually(
        lambda: deliveries_of(live, number), lambda found: all(row["status"] != "accepted" for row in found)
    )
    told = [await live.verdicts(row["id"]) for row in rows]
    assert [[verdict["stage"] for verdict in one] for one in told] == [["start"], *[["own_output"]] * parts]
    assert len(await live.runs(flow)) == 1

    # The same words by a person are no output of ours: the loop still listens.
    said = slack.posted[channel][0]["text"]
    await slack.deliver(post("EvTWO", "1793610009.000100", channel=channel, text=said))
    await eventually(lambda: live.runs(flow), lambda found: len(found) == 2)
