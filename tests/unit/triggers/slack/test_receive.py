"""What Slack sends over HTTP, and what each of it comes to: SL-01, SL-03, SL-10, SL-19, SL-32."""

import json
from typing import Any

import pytest

from loops.errors import PayloadMalformed
from tests.unit.triggers.slack.deliveries import (
    FORM,
    SOURCE,
    delivery,
    encoded,
    fixture,
    form,
    incoming,
    interaction,
    receive,
)
from triggers.slack.ignored import NO_COMMANDS, NO_INTERACTION
from triggers.source import Ignored, Topic


def test_a_message_is_received_with_its_event_id_and_its_place() -> None:
    arrival = receive(fixture("message__plain"))
    assert (arrival.key, arrival.name, arrival.ignored) == ("Ev0000000001", "message", None)
    assert arrival.subject == "slack:T0ACME:C0ALERTS:1793610000.000100"
    assert arrival.topics == (Topic("$slack_message_received", channel="C0ALERTS"),)
    assert arrival.verified
    assert arrival.kept


def test_sl_01_a_challenge_is_told_back() -> None:
    arrival = receive(fixture("url_verification__challenge"))
    assert arrival.told == {"challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}
    assert "challenge" in str(arrival.ignored)
    assert receive(fixture("url_verification__challenge")).key == arrival.key
    assert receive(fixture("url_verification__challenge", challenge="another")).key != arrival.key


def test_sl_03_a_retry_is_the_same_delivery_and_is_not_refused_for_being_one() -> None:
    first = receive(fixture("message__plain"))
    again = receive(fixture("message__plain"), x_slack_retry_num="1", x_slack_retry_reason="http_timeout")
    assert again == first
    assert {"x-slack-retry-num", "x-slack-retry-reason"} <= set(SOURCE.kept_headers)
    assert not {"x-slack-signature", "x-slack-request-timestamp"} & set(SOURCE.kept_headers)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("message__edited", "an edit, an unfurled link or a change of the thread's counts is no new message"),
        ("message__unfurled", "an edit, an unfurled link or a change of the thread's counts is no new message"),
        ("message__thread_count", "an edit, an unfurled link or a change of the thread's counts is no new message"),
        ("message__deleted", "a message was deleted: that is no new message"),
        ("message__channel_join", "somebody joined the channel: that is no message"),
        ("channel_rename__plain", "channels are known by their ids: a new name changes nothing"),
        ("group_rename__plain", "channels are known by their ids: a new name changes nothing"),
        ("reaction_added__eyes", "reaction_added starts nothing: only messages do"),
        ("app_uninstalled__plain", "the app was uninstalled from the workspace: install it anew to go on"),
        ("app_rate_limited__minute", "over 30,000"),
        ("url_verification__challenge", "the challenge by which Slack checks this address: answered"),
    ],
)
def test_sl_10_sl_32_what_is_no_new_message_is_ignored_with_its_reason(name: str, reason: str) -> None:
    payload = fixture(name)
    arrival = receive(payload)
    assert arrival.ignored is not None
    assert reason in arrival.ignored
    assert SOURCE.parse(delivery(payload, arrival), None, {}) == Ignored(arrival.ignored)


@pytest.mark.parametrize("subtype", ["channel_topic", "pinned_item", "reminder_add", "huddle_thread", "x" * 500])
def test_other_subtypes_are_ignored_by_name(subtype: str) -> None:
    ignored = receive(fixture("message__plain", {"subtype": subtype})).ignored
    assert ignored is not None
    assert ignored.startswith(subtype[:79])
    assert len(ignored) < 120


def test_a_mention_that_an_edit_brought_is_no_new_message() -> None:
    edited = {"edited": {"user": "U0ADA", "ts": "1793610099.000000"}}
    assert receive(fixture("app_mention__plain", edited)).ignored == "an edit is no new message"


def test_sl_19_a_slash_command_is_told_in_words_that_there_is_none() -> None:
    arrival = receive(form("slash_command__plain"))
    assert (arrival.name, arrival.ignored) == ("slash_command", NO_COMMANDS)
    assert arrival.told == {"response_type": "ephemeral", "text": NO_COMMANDS}
    assert arrival.parsed["text"] == "a & b"  # type: ignore[index]


@pytest.mark.parametrize("name", ["block_actions__button", "view_submission__modal"])
def test_sl_19_interactions_are_known_and_ignored(name: str) -> None:
    arrival = receive(interaction(fixture(name)))
    assert (arrival.name, arrival.ignored, arrival.told) == (name.split("__")[0], NO_INTERACTION, {})
    lost = receive(interaction(fixture(name)), content_type="text/plain")
    assert lost == arrival


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "the form is empty"),
        (b"&&&", "the form is empty"),
        (b"payload=", "no JSON"),
        (b"payload=%7B", "no JSON"),
        (b"payload=[]", "must be a JSON object, got an array"),
        (b"a=1&b=2", "type is missing"),
        (b"command=", "type is missing"),
        (b"&".join(b"f%d=1" % number for number in range(201)), "more than 200 fields"),
        (b"payload=" + b'{"a":' * 300 + b"1" + b"}" * 300, "nests deeper"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_sl_19_a_form_that_is_none_of_slacks_is_400_and_says_why(body: bytes, told: str) -> None:
    with pytest.raises(PayloadMalformed, match=told) as caught:
        SOURCE.receive(incoming(body, content_type=FORM), {"signing_secret": "8f742231b10e8888abcd99yyyzzz85a5"})
    assert caught.value.http_status == 400


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"type": None}, "type is missing"),
        ({"type": ["event_callback"]}, "type is missing"),
        ({"type": ""}, "type is missing"),
        ({"event": None}, "event is missing, or no object"),
        ({"event": "message"}, "event is missing, or no object"),
        ({"event": {}}, "event.type is missing"),
        ({"event": {"type": 5}}, "event.type is missing"),
    ],
)
def test_an_envelope_that_lacks_what_slack_always_sends_is_400_and_names_it(changes: Any, told: str) -> None:
    with pytest.raises(PayloadMalformed, match=told) as caught:
        receive(fixture("message__plain") | changes)
    assert caught.value.path == told.partition(" ")[0]
    assert caught.value.hint


@pytest.mark.parametrize("event_id", [None, "", 7, "E" * 201])
def test_an_event_without_an_id_is_known_by_its_bytes(event_id: Any) -> None:
    arrival = receive(fixture("message__plain", event_id=event_id))
    assert arrival.key.startswith("message:")
    assert arrival == receive(fixture("message__plain", event_id=event_id))
    assert arrival.key != receive(fixture("message__mention", event_id=event_id)).key


def test_a_challenge_that_is_missing_is_400() -> None:
    with pytest.raises(PayloadMalformed, match="challenge is missing"):
        receive(fixture("url_verification__challenge", challenge=None))


def test_what_slack_may_invent_tomorrow_is_ignored_by_name() -> None:
    assert (
        receive({"type": "observability.anomaly"}).ignored == "observability.anomaly is nothing that Loops listens to"
    )
    invented = fixture("message__plain", event={"type": "message_with_wings"})
    assert receive(invented).ignored == "message_with_wings starts nothing: only messages do"


def test_what_is_not_valid_unicode_is_stored_as_replacement_characters() -> None:
    body = encoded(fixture("message__plain")).replace(b"fire", rb"\ud800 \u0000 \ud83d\ude00")
    arrival = receive(body)
    (event,) = SOURCE.parse(delivery(body, arrival), None, {})  # type: ignore[misc]
    assert event.properties["text"] == "the database is on \ufffd \ufffd 😀"
    json.dumps(dict(event.properties), ensure_ascii=False).encode()
