"""Email alone: how the connection is secured, who was refused, and what arrives."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from notify.message import Address, EmailTarget, Message, Outgoing, Refused, Retry, Sent, Uncertain, Unsettled

pytest.importorskip("aiosmtplib")
pytest.importorskip("aiosmtpd")

from notify.email import EmailNotifier, Security, Server
from tests.doubles.smtp import PASSWORD, USER, SmtpDouble, smtp

if TYPE_CHECKING:
    from notify.message import Outcome

ADA, BOB = Address("ada@example.org", "Ada"), Address("bob@example.org")


def outgoing(text: str = "text", to: tuple[Address, ...] = (ADA,), **other: Any) -> Outgoing:
    sender = other.pop("sender", None)
    message = Message(EmailTarget(1, to, sender), "k", text, subject=other.pop("subject", "News"), **other)
    return Outgoing("0a1b", message, datetime(2026, 7, 6, tzinfo=UTC))


def notifier(
    double: SmtpDouble,
    tls: ssl.SSLContext,
    security: Security = "starttls",
    host: str = "localhost",
    user: str = USER,
    password: str = PASSWORD,
) -> EmailNotifier:
    server = Server(host, double.port, security, user, password)
    return EmailNotifier(server, Address("loops@example.org", "Loops"), tls=tls, seconds=2)


async def sent_through(folder: Path, message: Outgoing, **settings: Any) -> "tuple[Outcome, SmtpDouble]":
    async with smtp(folder, **settings) as (double, tls):
        return await notifier(double, tls).send(message), double


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_mail_goes_over_tls_and_signs_in_there(tmp_path, security: Security):
    async with smtp(tmp_path, security=security) as (double, tls):
        outcome = await notifier(double, tls, security).send(outgoing())
    assert outcome == Sent("<loops.0a1b@example.org>")
    assert double.signed_in[0] == (USER, security == "starttls")
    (mail,) = double.mails
    assert (mail["From"], mail["To"]) == ("Loops <loops@example.org>", "Ada <ada@example.org>")
    assert mail["Message-ID"] == "<loops.0a1b@example.org>"


async def test_a_check_signs_in_over_tls_and_sends_nothing_and_a_wrong_password_is_told(tmp_path):
    async with smtp(tmp_path) as (double, tls):
        assert await notifier(double, tls).check() is None
        wrong = await notifier(double, tls, password="wrong").check()
        assert isinstance(wrong, Refused)
        assert (wrong.code, {*double.signed_in}, double.envelopes) == ("sign_in", {(USER, True)}, [])
    gone = await notifier(double, tls).check()
    assert isinstance(gone, Retry)


async def test_em_05_a_server_that_offers_no_starttls_gets_neither_password_nor_mail(tmp_path):
    async with smtp(tmp_path, security="none") as (double, tls):
        outcome = await notifier(double, tls).send(outgoing())
    assert isinstance(outcome, Refused)
    assert outcome.code == "starttls"
    assert (double.signed_in, double.envelopes) == ([], [])


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_em_05_a_certificate_that_cannot_be_trusted_is_refused(tmp_path, security: Security):
    async with smtp(tmp_path, security=security) as (double, _tls):
        outcome = await notifier(double, ssl.create_default_context(), security).send(outgoing())
    assert isinstance(outcome, Refused)
    assert outcome.code == "certificate"
    assert (double.signed_in, double.envelopes) == ([], [])


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_certificate_for_another_name_is_refused(tmp_path, security: Security):
    async with smtp(tmp_path, security=security, name="other.example") as (double, tls):
        outcome = await notifier(double, tls, security).send(outgoing())
    assert isinstance(outcome, Refused)
    assert outcome.code == "certificate"
    assert "localhost" in outcome.reason
    assert double.envelopes == []


async def test_em_05_tls_from_the_beginning_is_never_tried_in_the_clear(tmp_path):
    async with smtp(tmp_path, security="starttls") as (double, tls):
        outcome = await notifier(double, tls, "tls").send(outgoing())
    assert not isinstance(outcome, Sent)
    assert (double.signed_in, double.envelopes) == ([], [])


async def test_a_password_never_travels_in_the_clear(tmp_path):
    async with smtp(tmp_path, security="none") as (double, tls):
        outcome = await notifier(double, tls, "none").send(outgoing())
    assert isinstance(outcome, Refused)
    assert outcome.code == "clear_password"
    assert (double.signed_in, double.envelopes) == ([], [])


async def test_a_server_without_tls_and_password_may_be_used_where_a_person_says_so(tmp_path):
    async with smtp(tmp_path, security="none", password=False) as (double, tls):
        assert isinstance(await notifier(double, tls, "none", user="", password="").send(outgoing()), Sent)
    assert len(double.mails) == 1


async def test_a_wrong_password_is_told_and_not_shown(tmp_path):
    async with smtp(tmp_path) as (double, tls):
        outcome = await notifier(double, tls, password="engine-no-2").send(outgoing())
    assert isinstance(outcome, Refused)
    assert outcome.code == "sign_in"
    assert "engine-no-2" not in f"{outcome} {notifier(double, tls)._server!r}"


async def test_a_server_that_asks_for_no_password_and_gets_one_is_told(tmp_path):
    outcome, double = await sent_through(tmp_path, outgoing(), password=False)
    assert isinstance(outcome, Refused)
    assert outcome.code == "sign_in"
    assert double.envelopes == []


@asynccontextmanager
async def no_mail_server(greet: Callable[[asyncio.StreamReader], Awaitable[object]]) -> AsyncIterator[int]:
    """Takes connections, does what it is told, and hangs up; its port."""
    over = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        over.set()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await over.wait()


async def test_em_05_a_server_that_says_nothing_is_given_up_in_time():
    async with no_mail_server(lambda reader: reader.read()) as port:
        begun = time.monotonic()
        server = Server("127.0.0.1", port, "starttls")
        outcome = await EmailNotifier(server, ADA, tls=ssl.create_default_context(), seconds=0.3).send(outgoing())
        assert time.monotonic() - begun < 2
    assert isinstance(outcome, Retry)


async def test_em_05_a_server_that_hangs_up_at_once_is_told():
    async with no_mail_server(lambda _reader: asyncio.sleep(0)) as port:
        outcome = await EmailNotifier(Server("127.0.0.1", port, "none"), ADA, seconds=2).send(outgoing())
    assert isinstance(outcome, Retry)
    assert f"127.0.0.1:{port}" in outcome.reason


async def test_recipients_that_are_refused_beside_others_are_named(tmp_path):
    outcome, double = await sent_through(
        tmp_path, outgoing(to=(ADA, BOB)), refuses={"bob@example.org": "550 no such user here"}
    )
    assert outcome == Sent("<loops.0a1b@example.org>", ("bob@example.org: 550 no such user here",))
    assert double.envelopes[0].rcpt_tos == ["ada@example.org"]


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({"ada@example.org": "550 no such user", "bob@example.org": "550 neither"}, Refused),
        ({"ada@example.org": "550 no such user", "bob@example.org": "451 greylisted"}, Retry),
    ],
)
async def test_when_every_recipient_is_refused_nothing_is_sent(tmp_path, answers: dict[str, str], kind: type):
    outcome, double = await sent_through(tmp_path, outgoing(to=(ADA, BOB)), refuses=answers)
    assert isinstance(outcome, kind)
    assert "ada@example.org: 550 no such user; bob@example.org: 4" in str(outcome).replace(": 550 neither", ": 4")
    assert double.envelopes == []


@pytest.mark.parametrize(
    ("setting", "answer", "kind", "code"),
    [
        ("sender_answer", "553 not yours", Refused, "sender"),
        ("sender_answer", "451 later", Retry, ""),
        ("data_answer", "552 too big", Refused, "too_large"),
        ("data_answer", "554 spam", Refused, "refused"),
        ("data_answer", "452 full", Retry, ""),
    ],
)
async def test_what_the_server_says_decides(tmp_path, setting: str, answer: str, kind: type, code: str):
    outcome, double = await sent_through(tmp_path, outgoing(), **{setting: answer})
    assert isinstance(outcome, kind)
    assert answer in str(outcome)
    assert getattr(outcome, "code", "") == code
    assert double.envelopes == []


@pytest.mark.parametrize("how", ["closes_after_data", "silent_after_data"])
async def test_em_08_a_server_lost_after_the_mail_was_handed_over_leaves_it_uncertain(tmp_path, how: str):
    outcome, double = await sent_through(tmp_path, outgoing(), **{how: True})
    assert isinstance(outcome, Uncertain)
    assert len(double.envelopes) == 1


async def test_an_uncertain_mail_is_for_a_person_to_settle(tmp_path):
    async with smtp(tmp_path) as (double, tls):
        found = await notifier(double, tls).settle(outgoing())
    assert isinstance(found, Unsettled)
    assert not found.again


@pytest.mark.parametrize(
    "text", ["x" * 5000, ".", "a\n.\nb\n..\n.c", "ü" * 5000, "Отчёт 🎉\n" * 300, "long " * 8001, "x" * 40_001]
)
async def test_em_10_a_body_arrives_as_it_was_written(tmp_path, text: str):
    outcome, double = await sent_through(tmp_path, outgoing(text))
    assert isinstance(outcome, Sent)
    assert max(map(len, double.raw().split(b"\r\n"))) <= 998
    assert double.mails[0].get_content().replace("\r\n", "\n").rstrip("\n") == text.rstrip("\n")


async def test_em_01_nothing_written_into_headers_makes_another_one(tmp_path):
    evil = "Hi\r\nBcc: mallory@example.org"
    _outcome, double = await sent_through(
        tmp_path, outgoing(subject=evil, to=(Address("ada@example.org", evil),), sender=Address("", evil))
    )
    assert "Bcc" not in double.mails[0]
    assert double.envelopes[0].rcpt_tos == ["ada@example.org"]


async def test_copies_arrive_and_unseen_ones_are_named_in_no_header(tmp_path):
    target = EmailTarget(1, (ADA,), None, (BOB,), (Address("cy@example.org", "Cy"),), (Address("desk@example.org"),))
    message = Message(target, "k", "text", subject="News")
    async with smtp(tmp_path, refuses={"bob@example.org": "550 no such user"}) as (double, tls):
        outcome = await notifier(double, tls).send(Outgoing("0a1b", message, datetime(2026, 7, 6, tzinfo=UTC)))
    assert isinstance(outcome, Sent)
    assert outcome.missed == ("bob@example.org: 550 no such user",)
    assert double.envelopes[0].rcpt_tos == ["ada@example.org", "cy@example.org"]
    (mail,) = double.mails
    assert (mail["To"], mail["Cc"], mail["Reply-To"]) == (
        "Ada <ada@example.org>",
        "bob@example.org",
        "desk@example.org",
    )
    assert b"cy@example.org" not in double.raw()


async def test_a_message_may_name_its_own_sender(tmp_path):
    _outcome, double = await sent_through(tmp_path, outgoing(sender=Address("ci@example.com", "CI")))
    assert double.mails[0]["From"] == "CI <ci@example.com>"
    assert double.envelopes[0].mail_from == "ci@example.com"


@pytest.mark.parametrize("to", [(), (Address("ada"),), (Address("ada@example.org\r\nRCPT TO:<x@y>"),)])
async def test_what_is_no_address_is_refused_before_the_server_is_asked(to: tuple[Address, ...]):
    outcome = await EmailNotifier(Server("127.0.0.1", 1, "none"), ADA).send(outgoing(to=to))
    assert isinstance(outcome, Refused)
    assert outcome.code == "address"
