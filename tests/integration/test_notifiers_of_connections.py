"""Which connection a message leaves through."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime

import pytest

from loops.connections.book import ConnectionBook
from loops.connections.secrets import SecretBox
from loops.store import connections
from loops.store.database import Database, open_database
from notify.message import Address, EmailTarget, Message, Outgoing, PageTarget, Sent, SlackTarget, Unconnected
from tests.conftest import new_sqlite
from tests.doubles.slack import TOKEN, slack

pytest.importorskip("aiosmtplib")

from notify.registry import ConnectedNotifiers

NOW = datetime(2026, 7, 6, 12, 0, tzinfo=UTC)
BOX = SecretBox(["a key that is long enough to be one"])


@pytest.fixture
async def database(tmp_path, sqlite_template) -> AsyncIterator[Database]:
    opened = open_database(new_sqlite(sqlite_template, tmp_path))
    yield opened
    await opened.aclose()


@pytest.fixture
def notifiers(database: Database) -> ConnectedNotifiers:
    return ConnectedNotifiers(ConnectionBook(database.reader, BOX))


async def connect(database: Database, kind: str, config: Mapping[str, str], **secrets: str) -> int:
    return await database.writer.run(
        lambda connection: connections.insert(
            connection, project_id="default", kind=kind, name="c", config=config, secrets=BOX.seal(secrets), now=NOW
        )
    )


async def test_a_slack_connection_posts_with_its_token_to_its_address(database, notifiers):
    async with slack() as double:
        key = await connect(database, "slack", {"api_base_url": double.url}, bot_token=TOKEN)
        target = SlackTarget(key, "C1")
        notifier = await notifiers.of(target, "default")
        assert await notifiers.of(target, "default") is notifier
        sent = await notifier.send(Outgoing("0a", Message(target, "k", "text"), NOW))
    assert isinstance(sent, Sent)
    assert double.texts() == ["text"]


async def test_a_slack_connection_without_a_bot_token_sends_nothing_and_says_what_is_missing(database, notifiers):
    key = await connect(database, "slack", {}, signing_secret="x" * 32)
    found = await notifiers.of(SlackTarget(key, "C1"), "default")
    assert isinstance(found, Unconnected)
    assert "bot_token" in found.reason + found.mend


async def test_an_smtp_connection_sends_from_its_address(database, notifiers, tmp_path):
    pytest.importorskip("aiosmtpd")
    from tests.doubles.smtp import smtp

    async with smtp(tmp_path, security="none", password=False) as (double, _tls):
        config = {"host": "127.0.0.1", "port": str(double.port), "security": "none", "from": "Loops <l@example.org>"}
        target = EmailTarget(await connect(database, "smtp", config), (Address("ada@example.org"),))
        notifier = await notifiers.of(target, "default")
        assert isinstance(await notifier.send(Outgoing("0a", Message(target, "k", "t"), NOW)), Sent)
    assert double.mails[0]["From"] == "Loops <l@example.org>"


async def test_a_mail_server_without_more_settings_is_spoken_to_with_starttls(database, notifiers):
    key = await connect(database, "smtp", {"host": "mail.example.org", "from": "l@example.org"}, password="pw")
    notifier = await notifiers.of(EmailTarget(key, ()), "default")
    assert "mail.example.org:587, starttls" in repr(notifier._server)
    assert "pw" not in repr(notifier._server)


@pytest.mark.parametrize("target", [SlackTarget(None, "C1"), SlackTarget(99, "C1"), EmailTarget(99, ()), PageTarget()])
async def test_without_a_connection_nobody_sends(notifiers, target):
    assert isinstance(await notifiers.of(target, "default"), Unconnected)


async def test_a_connection_of_another_project_or_kind_is_none(database, notifiers):
    key = await connect(database, "slack", {}, bot_token=TOKEN)
    assert isinstance(await notifiers.of(SlackTarget(key, "C1"), "other"), Unconnected)
    assert isinstance(await notifiers.of(EmailTarget(key, ()), "default"), Unconnected)


async def test_a_changed_connection_makes_a_new_notifier(database, notifiers, monkeypatch):
    key = await connect(database, "slack", {}, bot_token=TOKEN)
    target = SlackTarget(key, "C1")
    first = await notifiers.of(target, "default")
    await database.writer.run(
        lambda connection: connections.change(
            connection, key, config={}, secrets=BOX.seal({"bot_token": "xoxb-new"}), now=NOW
        )
    )
    monkeypatch.setattr("loops.connections.book._CHECK_SECONDS", -1.0)
    assert await notifiers.of(target, "default") is not first
