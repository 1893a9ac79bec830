"""What every Notifier keeps, against doubles on loopback that take, refuse, stall and hang up."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from notify.message import (
    Address,
    EmailTarget,
    Message,
    Notifier,
    Outgoing,
    PageTarget,
    Refused,
    Retry,
    Sent,
    SlackTarget,
    Target,
    Uncertain,
)
from notify.slack import SlackNotifier
from tests.doubles import slack as slack_double

SECONDS = 0.8


@dataclass
class Place:
    """A notifier, a target that it reaches, and what arrived there; `act` makes the service behave so once."""

    notifier: Notifier
    target: Target
    texts: Callable[[], list[str]]
    act: Callable[[str], None]
    nowhere: Notifier

    def outgoing(self, text: str = "All is **well**", **other: Any) -> Outgoing:
        return Outgoing("0a1b", Message(self.target, "k", text, subject="News"), datetime.now(UTC), **other)


@asynccontextmanager
async def slack_place() -> AsyncIterator[Place]:
    faults = {
        "refuse": slack_double.says(error="is_archived"),
        "try later": slack_double.says(error="service_unavailable"),
        "take and hang up": slack_double.loses_the_answer,
        "stall": slack_double.sleeps(SECONDS + 0.4),
    }
    async with slack_double.slack() as double:
        yield Place(
            SlackNotifier(slack_double.TOKEN, base_url=double.url, seconds=SECONDS),
            SlackTarget(1, "C1"),
            double.texts,
            lambda how: double.faults.append(faults[how]),
            SlackNotifier(slack_double.TOKEN, base_url="http://127.0.0.1:1/api", seconds=SECONDS),
        )


@asynccontextmanager
async def email_place(folder: Path) -> AsyncIterator[Place]:
    pytest.importorskip("aiosmtplib")
    pytest.importorskip("aiosmtpd")
    from notify.email import EmailNotifier, Server
    from tests.doubles.smtp import PASSWORD, USER, smtp

    async with smtp(folder) as (double, tls):

        def act(how: str) -> None:
            double.data_answer = {"refuse": "554 not this one", "try later": "452 no room now"}.get(how, "")
            double.silent_after_data = how == "stall"
            double.closes_after_data = how == "take and hang up"

        def notifier(port: int) -> EmailNotifier:
            server = Server("localhost", port, "starttls", USER, PASSWORD)
            return EmailNotifier(server, Address("loops@example.org"), tls=tls, seconds=SECONDS)

        yield Place(
            notifier(double.port),
            EmailTarget(1, (Address("ada@example.org"),)),
            lambda: [mail.get_content() for mail in double.mails],
            act,
            notifier(1),
        )


@pytest.fixture(params=["slack", "email"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with slack_place() if request.param == "slack" else email_place(tmp_path) as opened:
        yield opened


async def test_a_message_arrives_once_and_its_name_is_told(place):
    outcome = await place.notifier.send(place.outgoing())
    assert isinstance(outcome, Sent)
    assert outcome.ref
    assert outcome.missed == ()
    (text,) = place.texts()
    assert "well" in text


async def test_a_refusal_says_why_and_nothing_arrives(place):
    place.act("refuse")
    outcome = await place.notifier.send(place.outgoing())
    assert isinstance(outcome, Refused)
    assert outcome.code
    assert outcome.reason
    assert outcome.mend
    assert place.texts() == []


async def test_what_the_service_cannot_take_now_is_for_later(place):
    place.act("try later")
    assert isinstance(await place.notifier.send(place.outgoing()), Retry)
    assert place.texts() == []


async def test_a_service_that_is_not_there_is_for_later(place):
    outcome = await place.nowhere.send(place.outgoing())
    assert isinstance(outcome, Retry)
    assert "cannot be reached" in outcome.reason


@pytest.mark.parametrize("how", ["take and hang up", "stall"])
async def test_a_connection_that_is_lost_while_the_message_is_taken_leaves_it_uncertain(place, how: str):
    place.act(how)
    outcome = await place.notifier.send(place.outgoing())
    assert isinstance(outcome, Uncertain)
    assert outcome.reason


async def test_every_part_of_a_long_text_arrives_in_order(place):
    text = "\n".join(f"line {number}" for number in range(4000))
    outgoing = place.outgoing(text)
    refs: tuple[str, ...] = ()
    parts = await place.notifier.parts(outgoing.message)
    assert isinstance(parts, int)
    for _part in range(parts):
        outcome = await place.notifier.send(place.outgoing(text, refs=refs))
        assert isinstance(outcome, Sent)
        refs = (*refs, outcome.ref)
    assert "\n".join(part.strip("\n") for part in place.texts()).split() == text.split()


async def test_a_target_of_another_kind_is_a_fault_of_the_caller(place):
    with pytest.raises(TypeError):
        await place.notifier.send(Outgoing("0a", Message(PageTarget(), "k", "text"), datetime.now(UTC)))
