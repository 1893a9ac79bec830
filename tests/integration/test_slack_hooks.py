"""Slack over HTTP, from the request to the runs, on SQLite and on Postgres."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.errors import StoreBusy
from loops.packed import unpack
from loops.ports import DeliveryRow, Receipt, Writer
from loops.store import tables
from server.app import Wiring
from tests.integration.running import PROJECT, Running, eventually, running
from tests.integration.slack_loops import SECRET, connect, deliveries_of, encoded, listening, post, signed
from tests.unit.triggers.slack.deliveries import fixture, form, interaction

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Away:
    """A writer that can be told to take no deliveries."""

    def __init__(self) -> None:
        self.now = False
        self._inner: Writer | None = None

    def wrap(self, writer: Writer) -> Writer:
        self._inner = writer
        return self

    async def accept(self, row: DeliveryRow) -> Receipt:
        if self.now:
            raise StoreBusy("the database is away")
        assert self._inner is not None
        return await self._inner.accept(row)

    async def run(self, fn: Callable[[sa.Connection], Any]) -> Any:
        assert self._inner is not None
        return await self._inner.run(fn)


AWAY = Away()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """Receives and dispatches; runs are queued, and nothing takes them: what is counted here is what starts."""
    folder = tmp_path_factory.mktemp("slack")
    async with running(folder, module_database_url, role="web", wiring=Wiring(writer=AWAY.wrap)) as started:
        yield started


class Channel:
    """A channel of the test's own, a loop that listens to it, and the hook of a connection."""

    def __init__(self, live: Running, connection: int, name: str) -> None:
        self.live = live
        self.connection = connection
        self.name = name
        self.loop = ""

    async def send(self, payload: Any, headers: dict[str, str] | None = None, **more: Any) -> tuple[int, Any]:
        body = encoded(payload)
        url = f"{self.live.service.url}/hooks/slack/{self.connection}"
        sent = {**(signed(body, **more) if headers is None else headers)}
        async with aiohttp.ClientSession() as client, client.post(url, data=body, headers=sent) as response:
            return response.status, await response.json()

    def message(self, name: str = "message__plain", event_id: str = "", **event: Any) -> dict[str, Any]:
        given = {"ts": "1793610000.000100", "channel": self.name, **event}
        return post(event_id or f"Ev{uuid.uuid4().hex}", given.pop("ts"), name, **given)

    async def settled(self) -> list[Any]:
        """Every delivery of the connection, once all are settled."""

        def all_are(rows: Any) -> bool:
            return all(row["status"] != "accepted" for row in rows)

        return [*await eventually(lambda: deliveries_of(self.live, self.connection), all_are)]

    async def event(self, delivery: str) -> dict[str, Any]:
        """The properties of the event that a delivery started a run with."""
        await self.settled()
        query = sa.select(tables.events.c.body).where(tables.events.c.delivery_id == delivery)
        body = await self.live.read(lambda connection: connection.execute(query).scalar_one())
        return dict(unpack(body)["properties"])

    async def runs(self) -> int:
        await self.settled()
        return len(await self.live.runs(self.loop))


def containing(key: str, words: str) -> dict[str, Any]:
    return {"key": key, "value": [words], "operator": "icontains", "type": "event"}


@pytest_asyncio.fixture(loop_scope="module")
async def channel(live: Running) -> Channel:
    name = f"C{uuid.uuid4().hex[:10].upper()}"
    connection = await connect(live, name, signing_secret=SECRET)
    made = Channel(live, connection, name)
    made.loop = (await live.create(listening(name, name))).id
    return made


async def test_a_message_is_answered_202_once_it_is_stored_and_starts_a_run(channel: Channel) -> None:
    status, told = await channel.send(channel.message(event_id="EvFIRST"))
    assert (status, told["status"]) == (202, "accepted")
    (row,) = await channel.settled()
    assert (row["id"], row["key"], row["name"], row["source"]) == (told["delivery"], "EvFIRST", "message", "slack")
    assert await channel.runs() == 1
    verdicts = await channel.live.verdicts(told["delivery"])
    assert [(one["stage"], one["passed"]) for one in verdicts] == [("start", True)]


async def test_sl_01_a_signed_challenge_is_told_back_and_an_unsigned_one_is_401(channel: Channel) -> None:
    challenge = fixture("url_verification__challenge")
    for expected in ("ignored", "duplicate"):
        status, told = await channel.send(challenge)
        assert (status, told["challenge"], told["status"]) == (200, challenge["challenge"], expected)
    assert (await channel.send(challenge, {"Content-Type": "application/json"}))[0] == 401
    assert (await channel.send(challenge, secret="another"))[0] == 401


async def test_sl_03_a_message_whose_first_try_failed_is_taken_at_the_retry_and_once(channel: Channel) -> None:
    message = channel.message()
    AWAY.now = True
    try:
        assert (await channel.send(message))[0] == 503
    finally:
        AWAY.now = False
    retry = signed(encoded(message)) | {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_error"}
    assert (await channel.send(message, retry))[0] == 202
    assert (await channel.send(message, retry | {"X-Slack-Retry-Num": "2"}))[0] == 200
    assert await channel.runs() == 1
    (row,) = await channel.settled()
    assert '"x-slack-retry-num":"1"' in row["headers"]
    assert "signature" not in row["headers"]


async def test_sl_04_twenty_posts_of_one_event_at_once_start_one_run(channel: Channel) -> None:
    message = channel.message()
    answers = await asyncio.gather(*(channel.send(message) for _ in range(20)))
    assert sorted(status for status, _ in answers) == [200] * 19 + [202]
    assert len({told["delivery"] for _, told in answers}) == 1
    assert await channel.runs() == 1


@pytest.mark.parametrize(
    "order", [("message__mention", "app_mention__plain"), ("app_mention__plain", "message__mention")]
)
@pytest.mark.parametrize("apart", [False, True])
async def test_sl_05_a_message_and_its_mention_start_one_run(
    channel: Channel, order: tuple[str, str], apart: bool
) -> None:
    for name in order:
        assert (await channel.send(channel.message(name)))[0] == 202
        if apart:
            await channel.settled()
    assert await channel.runs() == 1
    (first, second) = await channel.settled()
    (verdict,) = await channel.live.verdicts(second["id"])
    assert (verdict["stage"], verdict["reason"]) == ("claim", f"the same fact came before, in delivery {first['id']}")


async def test_sl_05_the_same_post_under_another_event_id_starts_one_run(channel: Channel) -> None:
    for _ in range(3):
        assert (await channel.send(channel.message()))[0] == 202
    assert await channel.runs() == 1
    assert (await channel.send(channel.message(ts="1793610009.000100")))[0] == 202
    assert await channel.runs() == 2


async def test_sl_07_a_loop_for_top_level_messages_does_not_hear_replies(live: Running, channel: Channel) -> None:
    top_level = {"key": "thread_ts", "operator": "is_not_set", "type": "event"}
    channel.loop = (await live.create(listening("top level", channel.name, top_level))).id
    for number, name in enumerate(("message__thread_reply", "message__thread_broadcast")):
        await channel.send(channel.message(name, ts=f"179361000{number}.000900"))
    assert await channel.runs() == 0
    await channel.send(channel.message())
    assert await channel.runs() == 1


async def test_sl_08_sl_14_the_apps_own_reply_starts_nothing_before_any_filter(channel: Channel) -> None:
    own = channel.message("message__own", ts="1793610009.000700")
    status, told = await channel.send(own)
    assert status == 202
    assert await channel.runs() == 0
    (verdict,) = await channel.live.verdicts(told["delivery"])
    assert (verdict["stage"], verdict["passed"]) == ("own_output", False)
    # The posts of other apps are heard, if the loop does not filter them out.
    await channel.send(channel.message("message__alert_bot", ts="1793610010.000700"))
    assert await channel.runs() == 1


async def test_sl_09_a_message_with_files_starts_its_loop_and_lists_them(channel: Channel) -> None:
    status, told = await channel.send(channel.message("message__file_share"))
    assert status == 202
    assert await channel.runs() == 1
    event = await channel.event(told["delivery"])
    assert event["text"] == "here is the log"
    assert [(one["name"], one["is_external"]) for one in event["files"]] == [("db.log", False), ("Runbook", True)]


async def test_sl_15_an_alarm_without_text_is_heard_by_its_whole_text_and_else_the_reason_is_kept(
    live: Running, channel: Channel
) -> None:
    loops = {
        words: (await live.create(listening(words, channel.name, containing("message_text", words)))).id
        for words in ("CRITICAL db", "97 % of /var used", "all is well")
    }
    plain = (await live.create(listening("text", channel.name, containing("text", "CRITICAL db")))).id
    _, told = await channel.send(channel.message("message__alert_bot"))
    await channel.settled()
    assert [len(await live.runs(one)) for one in (*loops.values(), plain)] == [1, 1, 0, 0]
    verdicts = {one["workflow"]: one for one in await live.verdicts(told["delivery"])}
    assert "wanted text that contains" in verdicts[loops["all is well"]]["reason"]
    assert verdicts[plain]["reason"] == 'text is "", wanted text that contains "CRITICAL db"'


async def test_sl_17_the_workspace_is_that_of_the_envelope_whoever_wrote(channel: Channel) -> None:
    _, told = await channel.send(channel.message("message__external_author"))
    assert await channel.runs() == 1
    event = await channel.event(told["delivery"])
    assert (event["slack_team_id"], event["is_ext_shared_channel"]) == ("T0ACME", True)
    assert event["slack_event"]["user_team"] != "T0ACME"


@pytest.mark.parametrize("name", ["channel_rename__plain", "group_rename__plain"])
async def test_sl_32_a_renamed_channel_is_known_by_its_id_as_before(live: Running, channel: Channel, name: str) -> None:
    named = (await live.create(listening("with its old name", f"{channel.name}|#alerts"))).id
    renamed = fixture(name)
    renamed["event"]["channel"] |= {"id": channel.name, "name": "incidents"}
    status, told = await channel.send(renamed)
    assert (status, told["status"]) == (200, "ignored")
    assert (await channel.send(channel.message()))[0] == 202
    assert await channel.runs() == 1
    assert len(await live.runs(named)) == 1


@pytest.mark.parametrize(
    "name",
    ["message__edited", "message__unfurled", "message__thread_count", "message__deleted", "channel_rename__plain"],
)
async def test_sl_10_edits_and_deletions_are_200_and_start_nothing(channel: Channel, name: str) -> None:
    payload = fixture(name)
    status, told = await channel.send(payload)
    assert (status, told["status"]) == (200, "ignored")
    assert told["reason"]
    assert await channel.runs() == 0


async def test_sl_18_a_workspace_that_is_connected_in_two_projects_is_heard_in_each(live: Running) -> None:
    projects = [PROJECT, f"p{uuid.uuid4().hex}"]
    row = {"id": projects[1], "name": "other", "time_zone": "UTC", "created_at": datetime.now(UTC)}
    await live.write(lambda connection: connection.execute(tables.projects.insert().values(**row)))
    name = f"C{uuid.uuid4().hex[:10].upper()}"
    channels, loops = [], []
    for project in projects:
        channels.append(Channel(live, await connect(live, name, project, signing_secret=SECRET), name))
        created = await live.services.workflows.create(project, listening(name, name), "test")
        loops.append(created.row.id)
    message = channels[0].message()
    for one in channels:
        assert (await one.send(message))[0] == 202
    for one, loop in zip(channels, loops, strict=True):
        await one.settled()
        query = sa.select(tables.runs.c.project_id).where(tables.runs.c.workflow_id == loop)
        assert len(await live.read(lambda connection, q=query: connection.execute(q).all())) == 1  # type: ignore[misc]


async def test_sl_19_commands_and_interactions_are_answered_in_words(channel: Channel) -> None:
    status, told = await channel.send(form("slash_command__plain"), form=True)
    assert (status, told["status"], told["response_type"]) == (200, "ignored", "ephemeral")
    assert told["text"] == told["reason"]
    status, told = await channel.send(interaction(fixture("block_actions__button")), form=True)
    assert (status, told["status"]) == (200, "ignored")
    status, told = await channel.send(b"neither=fish&nor=flesh", form=True)
    assert (status, told["error"]["code"]) == (400, "delivery.malformed")
    assert "type is missing" in told["error"]["message"]
    unsigned = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await channel.send(form("slash_command__plain"), unsigned))[0] == 401
    assert (await channel.send(interaction(fixture("view_submission__modal")), unsigned))[0] == 401


async def test_a_check_of_the_certificate_is_answered_and_leaves_nothing_behind(channel: Channel) -> None:
    unsigned = {"Content-Type": "application/x-www-form-urlencoded"}
    status, told = await channel.send(form("ssl_check__plain"), unsigned)
    assert (status, told["status"], told["delivery"]) == (200, "ignored", "")
    assert await channel.settled() == []


async def test_a_notice_of_held_back_events_is_recorded(channel: Channel) -> None:
    status, told = await channel.send(fixture("app_rate_limited__minute"))
    assert (status, told["status"]) == (200, "ignored")
    (row,) = await channel.settled()
    assert "30,000" in row["reason"]


@pytest.mark.parametrize(("minutes", "status"), [(-6, 401), (-4, 202), (4, 202), (6, 401)])
async def test_sl_20_the_clocks_may_be_five_minutes_apart(channel: Channel, minutes: int, status: int) -> None:
    answered, told = await channel.send(channel.message(), apart=60 * minutes)
    assert answered == status
    assert status == 202 or "clock" in told["error"]["message"]


@pytest.mark.parametrize(
    "changes",
    [
        {"X-Slack-Request-Timestamp": "abc"},
        {"X-Slack-Request-Timestamp": ""},
        {"X-Slack-Request-Timestamp": "1e9"},
        {"X-Slack-Request-Timestamp": "\uff11\uff12\uff13"},
        {"X-Slack-Signature": "v0=ü"},
        {"X-Slack-Signature": "v0="},
    ],
    ids=repr,
)
async def test_sl_21_headers_that_are_no_signature_are_401(channel: Channel, changes: dict[str, str]) -> None:
    body = encoded(channel.message())
    assert (await channel.send(body, signed(body) | changes))[0] == 401
    assert await channel.settled() == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"type":"event_callback"}', b'{"a":' * 2000 + b"1" + b"}" * 2000],
    ids=lambda body: repr(body)[:20],
)
@pytest.mark.parametrize("kind", [False, True], ids=["json", "form"])
async def test_signed_bodies_that_are_nothing_of_slacks_are_400_in_words(
    channel: Channel, body: bytes, kind: bool
) -> None:
    status, told = await channel.send(body, form=kind)
    assert status == 400
    assert told["error"]["message"]
