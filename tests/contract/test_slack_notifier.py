"""Slack alone: threads, parts, refusals, limits, and settling what is uncertain by reading back."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from notify.message import Absent, Message, Outgoing, Refused, Retry, Sent, SlackTarget, Uncertain, Unsettled
from notify.slack import SlackNotifier
from tests.doubles.slack import (
    TOKEN,
    SlackDouble,
    answers,
    limited,
    loses_the_answer,
    loses_the_request,
    says,
    slack,
)


@pytest.fixture
async def double() -> AsyncIterator[SlackDouble]:
    async with slack() as opened:
        yield opened


@pytest.fixture
def notifier(double: SlackDouble) -> SlackNotifier:
    return SlackNotifier(TOKEN, base_url=double.url, seconds=2)


def outgoing(
    text: str = "text", target: SlackTarget | None = None, refs: tuple[str, ...] = (), **other: Any
) -> Outgoing:
    now = datetime.now(UTC)
    return Outgoing("0a1b", Message(target or SlackTarget(1, "C1"), "k", text, **other), now, refs, now)


async def send_all(notifier: SlackNotifier, text: str, target: SlackTarget | None = None) -> tuple[str, ...]:
    refs: tuple[str, ...] = ()
    parts = await notifier.parts(outgoing(text).message)
    assert isinstance(parts, int)
    for _part in range(parts):
        outcome = await notifier.send(outgoing(text, target, refs))
        assert isinstance(outcome, Sent)
        refs = (*refs, outcome.ref)
    return refs


async def test_a_post_carries_the_outbox_id_and_parses_nothing(notifier, double):
    target = SlackTarget(1, "C1", thread="1.2", username="Loops", icon_emoji=":hedgehog:")
    outcome = await notifier.send(outgoing("**b** & <!here>", target))
    (posted,) = double.posted["C1"]
    assert outcome == Sent(posted["ts"])
    assert posted["metadata"] == {"event_type": "loops_message", "event_payload": {"outbox_id": "0a1b", "part": 0}}
    assert posted["text"] == "*b* &amp; &lt;!here&gt;"
    assert (posted["thread_ts"], posted["username"], posted["icon_emoji"]) == ("1.2", "Loops", ":hedgehog:")
    assert (posted["parse"], posted["link_names"], posted["unfurl_links"]) == ("none", False, False)


async def test_sl_25_a_report_of_40001_characters_arrives_whole_in_the_thread_of_its_first_part(notifier, double):
    code = "\n".join(f"emoji 🎉 {number} & <tag>" for number in range(2000))
    report = f"Report\n```\n{code}\n```\n"
    report += "x" * (40_001 - len(report))
    refs = await send_all(notifier, report)
    posted = double.posted["C1"]
    assert [one["ts"] for one in posted] == list(refs)
    assert len(refs) > 3
    assert "thread_ts" not in posted[0]
    assert {one["thread_ts"] for one in posted[1:]} == {refs[0]}
    assert all(text.count("```") % 2 == 0 for text in double.texts())
    arrived = "\n".join(double.texts())
    assert [line for line in arrived.splitlines() if line.startswith("emoji")] == [
        f"emoji 🎉 {number} &amp; &lt;tag&gt;" for number in range(2000)
    ]
    assert arrived.count("x") == report.count("x")


async def test_the_parts_of_an_answer_in_a_thread_stay_in_that_thread(notifier, double):
    await send_all(notifier, "word " * 4000, SlackTarget(1, "C1", thread="1.2"))
    assert {one["thread_ts"] for one in double.posted["C1"]} == {"1.2"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": "not_in_channel"}, "/invite @loops"),
        ({"error": "missing_scope", "needed": "im:write", "provided": "chat:write"}, "im:write"),
        ({"error": "restricted_action"}, "admin"),
        ({"error": "msg_too_long"}, "shorten"),
        ({"error": "token_revoked"}, "present token"),
    ],
)
async def test_what_slack_refuses_is_told_with_its_mend(notifier, double, body: dict[str, str], words: str):
    double.faults.append(says(**body))
    outcome = await notifier.send(outgoing())
    assert isinstance(outcome, Refused)
    assert outcome.code == body["error"]
    assert words in outcome.mend


async def test_a_wrong_token_and_an_unknown_channel_are_refused(notifier, double):
    wrong = await SlackNotifier("xoxb-wrong", base_url=double.url).send(outgoing())
    nowhere = await notifier.send(outgoing(target=SlackTarget(1, "C9")))
    assert isinstance(wrong, Refused)
    assert isinstance(nowhere, Refused)
    assert (wrong.code, nowhere.code) == ("invalid_auth", "channel_not_found")
    assert "xoxb" not in wrong.reason


@pytest.mark.parametrize("needed", [{"needed": "chat:write.customize", "provided": "chat:write"}, {}])
async def test_without_the_scope_for_a_name_of_its_own_the_message_goes_under_the_apps(notifier, double, needed):
    double.faults.append(says(error="missing_scope", **needed))
    outcome = await notifier.send(outgoing(target=SlackTarget(1, "C1", username="Loops", icon_emoji=":x:")))
    assert isinstance(outcome, Sent)
    (posted,) = double.posted["C1"]
    assert "username" not in posted
    assert "icon_emoji" not in posted


async def test_a_rate_limit_is_kept_for_the_whole_connection(notifier, double):
    double.faults.append(limited(30))
    outcome = await notifier.send(outgoing())
    assert outcome == Retry("Slack asks for fewer messages", after=30.0, whole=True)
    assert double.posted["C1"] == []


async def test_a_lost_connection_is_never_followed_by_another_try_of_the_library(notifier, double):
    double.faults += [loses_the_request, None]
    assert isinstance(await notifier.send(outgoing()), Uncertain)
    assert [name for name, _asked in double.calls] == ["conversations.info", "chat.postMessage"]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (answers(502, "<html>bad gateway</html>"), Uncertain),
        (answers(200, "hello"), Uncertain),
        (answers(200, "{broken", **{"Content-Type": "application/json"}), Uncertain),
        (answers(200, "[]", **{"Content-Type": "application/json"}), Uncertain),
        (answers(404, "not here"), Refused),
    ],
)
async def test_what_answers_and_is_not_slack_is_told(notifier, double, fault, kind: type):
    double.faults.append(fault)
    assert isinstance(await notifier.send(outgoing()), kind)


@pytest.mark.parametrize(("text", "code"), [("", "no_text"), (" \n", "no_text")])
async def test_an_empty_message_is_refused_before_slack_is_asked(notifier, double, text: str, code: str):
    outcome = await notifier.send(outgoing(text))
    assert isinstance(outcome, Refused)
    assert outcome.code == code
    assert double.calls == []


async def test_blocks_that_are_none_are_refused_before_slack_is_asked(notifier, double):
    outcome = await notifier.send(outgoing(blocks=("text",)))
    assert isinstance(outcome, Refused)
    assert "blocks[0]" in outcome.reason
    assert double.calls == []


@pytest.mark.parametrize("thread", ["", "1.2"])
async def test_an_uncertain_message_that_was_posted_is_found_by_its_mark(notifier, double, thread: str):
    target = SlackTarget(1, "C1", thread=thread)
    double.faults.append(loses_the_answer)
    assert isinstance(await notifier.send(outgoing("text", target)), Uncertain)
    assert await notifier.settle(outgoing("text", target)) == Sent(double.posted["C1"][0]["ts"])
    assert len(double.posted["C1"]) == 1


async def test_an_uncertain_message_that_was_not_posted_is_absent(notifier, double):
    double.post("C1", {"text": "somebody's", "blocks": [], "metadata": {"event_payload": {"outbox_id": "other"}}})
    double.faults.append(loses_the_request)
    assert isinstance(await notifier.send(outgoing()), Uncertain)
    assert await notifier.settle(outgoing()) == Absent()


async def test_a_part_is_told_from_the_parts_before_it(notifier, double):
    text = "word " * 4000
    first = await notifier.send(outgoing(text))
    assert isinstance(first, Sent)
    assert await notifier.settle(outgoing(text, refs=(first.ref,))) == Absent()
    second = await notifier.send(outgoing(text, refs=(first.ref,)))
    assert await notifier.settle(outgoing(text, refs=(first.ref,))) == second


async def test_a_message_is_found_on_a_later_page(notifier, double):
    double.page = 2
    await notifier.send(outgoing())
    for _number in range(5):
        double.post("C1", {"text": "noise", "blocks": []})
    assert isinstance(await notifier.settle(outgoing()), Sent)


async def test_a_channel_that_was_given_by_its_name_is_looked_up(notifier, double):
    double.names["C2"] = "alerts"
    double.post("C2", {"metadata": {"event_payload": {"outbox_id": "0a1b", "part": 0}}})
    assert isinstance(await notifier.settle(outgoing(target=SlackTarget(1, "#alerts"))), Sent)
    unknown = await notifier.settle(outgoing(target=SlackTarget(1, "#nowhere")))
    assert isinstance(unknown, Unsettled)
    assert not unknown.again


async def test_without_the_scope_to_read_a_message_stays_uncertain_and_says_why(notifier, double):
    double.read_fault = {"error": "missing_scope", "needed": "channels:history", "provided": "chat:write"}
    found = await notifier.settle(outgoing())
    assert isinstance(found, Unsettled)
    assert not found.again
    assert "channels:history" in found.reason


async def test_a_slack_that_cannot_be_asked_now_is_asked_again(notifier, double):
    double.read_fault = {"error": "ratelimited"}
    limited_now = await notifier.settle(outgoing())
    away = await SlackNotifier(TOKEN, base_url="http://127.0.0.1:1/api").settle(outgoing())
    assert isinstance(limited_now, Unsettled)
    assert isinstance(away, Unsettled)
    assert limited_now.again
    assert away.again


async def test_what_was_posted_long_before_the_attempt_is_not_read(notifier, double):
    await notifier.settle(outgoing())
    ((method, asked),) = double.calls
    assert method == "conversations.history"
    oldest = datetime.fromtimestamp(float(asked["oldest"]), UTC)
    assert timedelta(minutes=1) < datetime.now(UTC) - oldest < timedelta(minutes=3)


async def test_where_the_app_may_not_post_nothing_is_tried_and_the_mend_names_channel_and_app(notifier, double):
    double.infos["C3"] = {"is_member": True, "is_archived": True}
    double.names["C3"] = "old"
    found = [await notifier.send(outgoing(target=SlackTarget(1, key))) for key in ("C2", "C3")]
    assert [(one.code, one.reason) for one in found if isinstance(one, Refused)] == [
        ("not_in_channel", "the app is not in #alerts (C2)"),
        ("is_archived", "#old (C3) is archived"),
    ]
    assert found[0] == Refused("not_in_channel", "the app is not in #alerts (C2)", "invite it there: /invite @loops")
    assert "chat.postMessage" not in [name for name, _asked in double.calls]
    unseen = await notifier.send(outgoing(target=SlackTarget(1, "C9")))
    assert isinstance(unseen, Refused)
    assert (unseen.code, unseen.reason) == ("channel_not_found", "C9 is no channel that the app sees")
    assert [name for name, _asked in double.calls].count("chat.postMessage") == 1
    double.infos["C2"] = {"is_member": True}
    assert isinstance(await notifier.send(outgoing(target=SlackTarget(1, "C2"))), Sent)


async def test_a_public_channel_needs_no_invitation_with_the_scope_to_post_anywhere(notifier, double):
    double.scopes = "chat:write,chat:write.public"
    assert isinstance(await notifier.send(outgoing(target=SlackTarget(1, "C2"))), Sent)
    double.infos["C1"] = {"is_member": False, "is_private": True}
    refused = await notifier.send(outgoing())
    assert isinstance(refused, Refused)
    assert refused.code == "not_in_channel"


async def test_an_app_that_was_taken_out_of_a_channel_since_it_was_looked_at_is_told_the_same_way(notifier, double):
    assert isinstance(await notifier.send(outgoing()), Sent)
    double.faults += [says(error="not_in_channel")]
    double.infos["C1"] = {"is_member": False}
    told = [await notifier.send(outgoing()), await notifier.send(outgoing())]
    assert [(one.code, one.mend) for one in told if isinstance(one, Refused)] == [
        ("not_in_channel", "invite it there: /invite @loops")
    ] * 2
    assert [name for name, _asked in double.calls].count("conversations.info") == 2


async def test_a_slack_that_does_not_tell_of_the_channel_is_posted_to(double):
    double.infos.clear()
    double.names.clear()
    away = SlackNotifier(TOKEN, base_url="http://127.0.0.1:1/api")
    assert isinstance(await away.send(outgoing()), Retry)
    named = await SlackNotifier(TOKEN, base_url=double.url).send(outgoing(target=SlackTarget(1, "#general")))
    assert isinstance(named, Refused)
    assert [name for name, _asked in double.calls] == ["chat.postMessage", "auth.test"]
