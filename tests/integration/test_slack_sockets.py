"""Socket Mode against a Slack on loopback, through Slack's own client: stored before acknowledged, reopened when lost,
following the connections as they change. SL-04, SL-05, SL-08, SL-14, SL-17 to SL-19."""

import logging
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from loops.store import connections, tables
from server.app import Wiring
from tests.doubles.slack import TOKEN
from tests.doubles.slack_socket import APP_TOKEN, IDENTITY, SlackSocketDouble, slack_sockets, until
from tests.integration.running import PROJECT, Running, eventually, running
from tests.integration.slack_loops import config_of, connect, deliveries_of, listening, post
from tests.integration.test_slack_hooks import Away
from tests.unit.triggers.slack.deliveries import fixture
from triggers.slack.ignored import NO_COMMANDS
from triggers.slack.patience import Timing

pytestmark = pytest.mark.asyncio(loop_scope="module")

FAST = Timing(look=0.05, first=0.05, most=0.2, settled=0.0, ping=0.3)
AWAY = Away()
LEARNED = {"team_id": "T0ACME", "user_id": "U0LOOPS", "bot_id": "B0LOOPS", "app_id": "A0LOOPS"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("sockets")
    wiring = Wiring(writer=AWAY.wrap, slack=FAST)
    async with running(folder, module_database_url, role="web", wiring=wiring) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def slack() -> AsyncIterator[SlackSocketDouble]:
    async with slack_sockets() as double:
        yield double


class Listening:
    """A connection with an app token, a loop, and a channel of the test's own."""

    def __init__(self, live: Running, slack: SlackSocketDouble) -> None:
        self.live = live
        self.slack = slack
        self.channel = f"C{uuid.uuid4().hex[:10].upper()}"
        self.connection = 0
        self.loop = ""

    async def begin(self, **settings: str) -> "Listening":
        given = {"app_token": APP_TOKEN, "api_base_url": self.slack.url, **settings}
        self.connection = await connect(self.live, self.channel, **given)
        self.loop = (await self.live.create(listening(self.channel, self.channel))).id
        return self

    async def end(self) -> None:
        await self.live.write(lambda c: connections.delete(c, PROJECT, self.connection))
        await until(lambda: not self.slack.sockets)

    def message(self, name: str = "message__plain", event_id: str = "", **event: Any) -> dict[str, Any]:
        given = {"ts": "1793610000.000100", "channel": self.channel, **event}
        return post(event_id or f"Ev{uuid.uuid4().hex}", given.pop("ts"), name, **given)

    async def stored(self) -> list[Any]:
        return await deliveries_of(self.live, self.connection)

    async def runs(self) -> int:
        await eventually(self.stored, lambda rows: all(row["status"] != "accepted" for row in rows))
        return len(await self.live.runs(self.loop))


@pytest_asyncio.fixture(loop_scope="module")
async def one(live: Running, slack: SlackSocketDouble) -> AsyncIterator[Listening]:
    started = await Listening(live, slack).begin()
    await until(lambda: bool(slack.sockets))
    yield started
    await started.end()


async def test_an_envelope_is_stored_before_it_is_acknowledged_and_starts_a_run(one: Listening) -> None:
    AWAY.now = True
    try:
        envelope = await one.slack.send(one.message(event_id="EvSOCKET"))
        with pytest.raises(TimeoutError):
            await until(lambda: envelope in one.slack.acknowledged, 0.5)
        assert await one.stored() == []
    finally:
        AWAY.now = False
    # Slack sends again what was not acknowledged.
    again = await one.slack.deliver(one.message(event_id="EvSOCKET"))
    assert set(again) == {"envelope_id"}
    (row,) = await one.stored()
    assert (row["key"], row["source"], row["verified"]) == ("EvSOCKET", "slack", True)
    assert await one.runs() == 1


async def test_sl_04_sl_05_what_comes_twice_is_acknowledged_twice_and_starts_one_run(one: Listening) -> None:
    message = one.message("message__mention")
    await one.slack.deliver(message)
    await one.slack.deliver(message)
    await one.slack.deliver(one.message("app_mention__plain", text=message["event"]["text"]))
    assert len(await one.stored()) == 2
    assert await one.runs() == 1


async def test_sl_08_sl_14_what_the_app_posts_comes_back_and_starts_nothing(one: Listening) -> None:
    await one.slack.deliver(one.message())
    assert await one.runs() == 1
    for number in range(3):
        await one.slack.deliver(one.message("message__own", ts=f"179361001{number}.000700"))
    assert await one.runs() == 1
    assert len(await one.stored()) == 4


async def test_sl_10_what_is_no_new_message_is_acknowledged_and_recorded(one: Listening) -> None:
    for name in ("message__edited", "message__deleted", "reaction_added__eyes", "group_rename__plain"):
        assert set(await one.slack.deliver(fixture(name, event_id=f"Ev{uuid.uuid4().hex}"))) == {"envelope_id"}
    assert {row["status"] for row in await one.stored()} == {"ignored"}
    assert await one.runs() == 0


async def test_sl_19_a_command_is_answered_in_words_and_an_interaction_is_acknowledged(one: Listening) -> None:
    command = {"command": "/loops", "team_id": "T0ACME", "user_id": "U0ADA", "channel_id": "C0ALERTS", "text": ""}
    answer = await one.slack.deliver({**command, "trigger_id": "1", "response_url": "https://x"}, "slash_commands")
    assert answer["payload"]["text"] == NO_COMMANDS
    assert "payload" not in await one.slack.deliver(fixture("block_actions__button"), "interactive")
    assert "payload" not in await one.slack.deliver(fixture("view_submission__modal"), "interactive")
    assert [row["name"] for row in await one.stored()] == ["slash_command", "block_actions", "view_submission"]


async def test_an_envelope_that_cannot_be_read_is_acknowledged_and_logged(
    one: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    for payload in ({"type": "event_callback", "event_id": "E1"}, {}, {"event": {"type": "message"}}):
        await one.slack.deliver(payload)
    told = [record.getMessage() for record in caplog.records if record.name == "loops.slack"]
    assert any("event is missing, or no object" in line for line in told)
    assert await one.stored() == []
    await one.slack.deliver(one.message())
    assert await one.runs() == 1


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "too_many_websockets", "link_disabled"])
async def test_a_socket_that_slack_ends_is_followed_by_another(one: Listening, reason: str) -> None:
    await one.slack.deliver(one.message())
    await one.slack.ends(reason)
    await until(lambda: one.slack.opened == 2)
    await until(lambda: len(one.slack.sockets) == 1)
    await one.slack.deliver(one.message(ts="1793610009.000100"))
    assert await one.runs() == 2


async def test_an_outdated_socket_goes_on_bringing_envelopes_until_the_next_is_open(one: Listening) -> None:
    one.slack.limited = 1  # Slack asks to wait a second before the next may be opened
    await one.slack.ends("warning")
    await until(lambda: one.slack.limited == 0)
    assert one.slack.opened == 1
    await one.slack.deliver(one.message())
    await until(lambda: one.slack.opened == 2)
    await until(lambda: len(one.slack.sockets) == 1)
    assert await one.runs() == 1


async def test_a_socket_that_is_lost_without_a_word_is_followed_by_another(one: Listening) -> None:
    one.slack.lose()
    await until(lambda: one.slack.opened == 2)
    await until(lambda: len(one.slack.sockets) == 1)
    await one.slack.deliver(one.message())
    assert await one.runs() == 1


async def test_a_connection_is_followed_as_it_is_made_changed_and_deleted(
    live: Running, slack: SlackSocketDouble
) -> None:
    slack.app_tokens.add("xapp-1-A0LOOPS-other")
    begun = await Listening(live, slack).begin()
    await until(lambda: slack.opened == 1)
    sealed = live.services.box.seal({"app_token": "xapp-1-A0LOOPS-other"})
    config = {"api_base_url": slack.url}

    def change(connection: Any) -> None:
        connections.change(connection, begun.connection, config=config, secrets=sealed, now=datetime.now(UTC))

    await live.write(change)
    await until(lambda: slack.opened == 2)
    await until(lambda: len(slack.sockets) == 1)
    await slack.deliver(begun.message())
    assert await begun.runs() == 1
    # A change of what the socket does not need leaves it alone.
    await live.write(change)
    other = await Listening(live, slack).begin(app_token="", signing_secret="s" * 32)
    await slack.deliver(begun.message(ts="1793610009.000100"))
    assert slack.opened == 2
    await live.write(lambda c: connections.delete(c, PROJECT, other.connection))
    await begun.end()


async def test_a_broken_app_token_is_told_and_tried_again_until_it_works(
    live: Running, slack: SlackSocketDouble, caplog: pytest.LogCaptureFixture
) -> None:
    slack.app_tokens.clear()
    begun = await Listening(live, slack).begin()
    await until(lambda: slack.called("apps.connections.open") >= 3)
    told = [record for record in caplog.records if record.name == "loops.slack" and record.levelno == logging.WARNING]
    assert "apps.connections.open is refused: invalid_auth" in told[0].getMessage()
    assert "put the app's present token" in told[0].getMessage()
    assert told[0].connections == str(begun.connection)  # type: ignore[attr-defined]
    assert APP_TOKEN not in caplog.text
    slack.app_tokens.add(APP_TOKEN)
    await slack.deliver(begun.message())
    assert await begun.runs() == 1
    await begun.end()


async def test_sl_18_connections_that_share_an_app_each_get_every_envelope(
    live: Running, slack: SlackSocketDouble
) -> None:
    ours = await Listening(live, slack).begin()
    project = f"p{uuid.uuid4().hex}"
    row = {"id": project, "name": "other", "time_zone": "UTC", "created_at": datetime.now(UTC)}
    await live.write(lambda connection: connection.execute(tables.projects.insert().values(**row)))
    settings = {"app_token": APP_TOKEN, "api_base_url": slack.url}
    theirs = await connect(live, ours.channel, project, **settings)
    await until(lambda: bool(slack.sockets))

    async def both() -> tuple[list[Any], list[Any]]:
        await slack.deliver(ours.message(ts=f"{uuid.uuid4().int % 10**9}.1"))
        return await ours.stored(), await deliveries_of(live, theirs)

    here, there = await eventually(both, lambda found: bool(found[1]))
    assert slack.opened == 1
    assert there[-1]["key"] == here[-1]["key"]
    assert there[-1]["project_id"] == project
    await live.write(lambda c: connections.delete(c, project, theirs))
    await ours.end()


async def test_sl_17_of_two_workspaces_of_one_app_each_gets_its_own(live: Running, slack: SlackSocketDouble) -> None:
    acme = await Listening(live, slack).begin(team_id="T0ACME")
    other = await Listening(live, slack).begin(team_id="T0OTHER")
    await until(lambda: bool(slack.sockets))

    async def reached() -> int:
        await slack.deliver(acme.message(ts=f"{uuid.uuid4().int % 10**9}.1"))
        return len(await acme.stored())

    await eventually(reached, lambda count: count >= 3)
    # An author from elsewhere changes nothing about whose installation hears it.
    await slack.deliver(fixture("message__external_author", event_id=f"Ev{uuid.uuid4().hex}"))
    before, theirs = len(await acme.stored()), len(await other.stored())
    assert theirs < before  # at most what came before the second connection was seen
    await slack.deliver({**acme.message(), "authorizations": [{"team_id": "T0OTHER"}]})
    assert (len(await acme.stored()), len(await other.stored())) == (before, theirs + 1)
    await live.write(lambda c: connections.delete(c, PROJECT, other.connection))
    await acme.end()


async def test_the_app_is_learned_with_the_bot_token_and_kept_with_the_connection(
    live: Running, slack: SlackSocketDouble
) -> None:
    base = slack.url
    number = await connect(live, uuid.uuid4().hex, bot_token=TOKEN, signing_secret="s" * 32, api_base_url=base)
    config = await eventually(lambda: config_of(live, number), lambda found: "team_id" in found)
    assert config == LEARNED | {"api_base_url": base, "workspace_url": "https://acme.slack.com"}
    opened = await live.services.book.get(number, "slack")
    assert opened.secrets == {"bot_token": TOKEN, "signing_secret": "s" * 32}
    # Once: what was stored is no reason to ask again.
    await live.write(lambda c: connections.delete(c, PROJECT, number))
    assert [name for name, _asked in slack.calls] == ["auth.test", "bots.info"]


async def test_without_the_scope_for_it_the_apps_id_stays_unknown(live: Running, slack: SlackSocketDouble) -> None:
    slack.app_id = None
    number = await connect(live, uuid.uuid4().hex, bot_token=TOKEN, api_base_url=slack.url)
    config = await eventually(lambda: config_of(live, number), lambda found: "team_id" in found)
    assert config["bot_id"] == "B0LOOPS"
    assert "app_id" not in config
    await live.write(lambda c: connections.delete(c, PROJECT, number))


async def test_a_broken_bot_token_is_told_and_another_one_is_learned(
    live: Running, slack: SlackSocketDouble, caplog: pytest.LogCaptureFixture
) -> None:
    number = await connect(live, uuid.uuid4().hex, bot_token="xoxb-old", api_base_url=slack.url)
    await until(lambda: slack.called("auth.test") >= 2)
    told = [record.getMessage() for record in caplog.records if record.name == "loops.slack"]
    assert any("auth.test is refused: invalid_auth (put the app's present token" in line for line in told)
    assert "xoxb-old" not in caplog.text
    slack.bot_tokens["xoxb-new"] = {**IDENTITY, "bot_id": "B0NEW"}
    sealed = live.services.box.seal({"bot_token": "xoxb-new"})

    def change(connection: Any) -> None:
        config = {"api_base_url": slack.url}
        connections.change(connection, number, config=config, secrets=sealed, now=datetime.now(UTC))

    await live.write(change)
    config = await eventually(lambda: config_of(live, number), lambda found: "bot_id" in found)
    assert config["bot_id"] == "B0NEW"
    await live.write(lambda c: connections.delete(c, PROJECT, number))


async def test_a_connection_whose_secrets_cannot_be_opened_holds_up_no_other(
    live: Running, slack: SlackSocketDouble, caplog: pytest.LogCaptureFixture
) -> None:
    def put(connection: Any) -> int:
        return connections.insert(
            connection, project_id=PROJECT, kind="slack", name=uuid.uuid4().hex, config={}, secrets="no seal",
            now=datetime.now(UTC),
        )  # fmt: skip

    broken = await live.write(put)
    begun = await Listening(live, slack).begin()
    await slack.deliver(begun.message())
    assert await begun.runs() == 1
    told = [record for record in caplog.records if record.name == "loops.connections"]
    assert {record.connection for record in told} == {broken}  # type: ignore[attr-defined]
    await live.write(lambda c: connections.delete(c, PROJECT, broken))
    await begun.end()


async def test_two_processes_with_one_connection_take_each_message_once(
    module_database_url: str, tmp_path: Path, slack: SlackSocketDouble
) -> None:
    if module_database_url.startswith("sqlite"):
        pytest.skip("one process alone has SQLite")
    async with (
        running(tmp_path / "a", module_database_url, role="web", wiring=Wiring(slack=FAST)) as first,
        running(tmp_path / "b", module_database_url, role="web", wiring=Wiring(slack=FAST)),
    ):
        begun = await Listening(first, slack).begin()
        await until(lambda: len(slack.sockets) >= 2)
        message = begun.message()
        for socket in [*slack.sockets]:
            await socket.send_json({"envelope_id": uuid.uuid4().hex, "type": "events_api", "payload": message})
        await until(lambda: len(slack.acknowledged) >= 2)
        assert len(await begun.stored()) == 1
        assert await begun.runs() == 1
        await first.write(lambda c: connections.delete(c, PROJECT, begun.connection))
        await until(lambda: not slack.sockets)


async def test_a_service_that_stops_closes_its_sockets(tmp_path: Path, slack: SlackSocketDouble) -> None:
    url = f"sqlite:///{tmp_path / 'loops.db'}"
    async with running(tmp_path, url, role="web", wiring=Wiring(slack=FAST)) as started:
        begun = await Listening(started, slack).begin()
        await slack.deliver(begun.message())
    await until(lambda: not slack.sockets)
    assert slack.opened == 1
