"""Whom a trigger would have heard in the place of who started a task."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from loops.event import Event
from loops.filters import compile_filter
from triggers.slack.speakers import would_start

NAME = "$slack_message_received"
AT = datetime(2026, 11, 2, 9, tzinfo=UTC)


def message(user: str, text: str, *, thread_ts: str | None = None, ts: str = "1793610000.000100", **more: Any) -> Event:
    properties: dict[str, Any] = {
        "channel": "C1",
        "user": user,
        "bot_id": None,
        "subtype": None,
        "text": text,
        "message_text": text,
        "ts": ts,
        "thread_ts": thread_ts,
        "is_thread_reply": thread_ts is not None,
        "files": [],
        "slack_event": {"type": "message", "user": user, "team": "T1", "text": text, "ts": ts, **more},
    }
    return Event("one", NAME, "slack", user, AT, properties)


FIRST = message("U0BOSS", "Deploy, please", client_msg_id="a")


def passes(wanted: list[dict[str, Any]], reply: Event, **more: Any) -> bool:
    filters: dict[str, Any] = {"events": [{"id": NAME, "type": "events", **more}], "properties": wanted}
    compiled = compile_filter(filters)
    return all(one.passed for one in would_start(compiled, reply, FIRST))


def asked(key: str, value: Any = None, operator: str = "exact", kind: str = "event") -> dict[str, Any]:
    return {"key": key, "value": value, "operator": operator, "type": kind}


SENDER = [
    [asked("user", ["U0BOSS"])],
    [asked("user", "U0STRANGER", "is_not")],
    [asked("properties.user = 'U0BOSS'", kind="hogql")],
    [asked("properties.slack_event.user = 'U0BOSS'", kind="hogql")],
    [asked("properties.slack_event.team = 'T1'", kind="hogql")],
    [asked("distinct_id", "U0BOSS", kind="event_metadata")],
    [{"type": "OR", "values": [asked("user", "U0BOSS"), asked("channel", "C2")]}],
    [{"type": "OR", "values": [asked("user", "U0BOSS"), asked("message_text", "deploy it now", "icontains")]}],
]


@pytest.mark.parametrize("wanted", SENDER, ids=str)
def test_a_filter_on_the_sender_holds_for_replies_however_it_is_written(wanted: list[dict[str, Any]]) -> None:
    place = {"thread_ts": "1793610000.000100", "ts": "1793610001.000100"}
    stranger = message("U0STRANGER", "deploy it now", **place)
    stranger = replace(
        stranger, properties={**stranger.properties, "slack_event": {"user": "U0STRANGER", "team": "T2"}}
    )
    assert not passes(wanted, stranger)
    assert passes(wanted, message("U0BOSS", "and now?", **place))


def test_a_filter_of_one_of_several_events_holds_for_replies() -> None:
    other: dict[str, Any] = {"id": "another", "type": "events"}
    mine: dict[str, Any] = {"id": NAME, "type": "events", "properties": [asked("user", "U0BOSS")]}
    compiled = compile_filter({"events": [other, mine]})
    heard = [
        all(one.passed for one in would_start(compiled, message(user, "?", ts="2.1", thread_ts="1.1"), FIRST))
        for user in ("U0BOSS", "U0STRANGER")
    ]
    assert heard == [True, False]


WORDS = [
    [asked("message_text", "deploy", "icontains")],
    [asked("thread_ts", None, "is_not_set")],
    [asked("is_thread_reply", False)],
    [asked("subtype", None, "is_not_set"), asked("bot_id", None, "is_not_set")],
    [asked("properties.slack_event.text like '%Deploy%' and not properties.is_thread_reply", kind="hogql")],
    [asked("channel", ["C1"])],
]


@pytest.mark.parametrize("wanted", WORDS, ids=str)
def test_filters_on_words_and_place_keep_nobody_from_replying(wanted: list[dict[str, Any]]) -> None:
    reply = message("U0STRANGER", "Why?", ts="1793610001.000100", thread_ts="1793610000.000100", subtype="file_share")
    reply = replace(reply, properties={**reply.properties, "subtype": "file_share", "files": [{"id": "F1"}]})
    assert passes(wanted, reply)


def test_a_message_too_long_to_be_kept_is_compared_by_what_there_is_of_it() -> None:
    first = replace(FIRST, properties={**FIRST.properties, "slack_event": {"truncated": True}})
    wanted = compile_filter({"properties": [asked("user", "U0BOSS")]})
    reply = message("U0BOSS", "And now?", ts="2.1", thread_ts="1.1")
    assert all(one.passed for one in would_start(wanted, reply, first))
