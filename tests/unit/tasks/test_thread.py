"""Which thread a message stands in, what is told of it, and when something is shown there."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.event import JsonValue, event_json
from loops.store.threads import SaidRow, ThreadRow
from loops.tasks.thread.context import SlackContext, context_of, is_external, is_spoken, slack_context
from loops.tasks.thread.progress import due_for_progress, next_look, pace, progress_words
from loops.tasks.thread.said import MOST_AT_ONCE, MOST_MESSAGE, said_block, said_of
from tests.unit.triggers.slack.deliveries import OWN, fixture, parsed

NOW = datetime(2026, 7, 6, 12, 0, tzinfo=UTC)
TEAM = {**OWN, "team_id": "T0ACME"}


def event_of(name: str, **event: Any) -> dict[str, Any]:
    return event_json(parsed(fixture(name, event), TEAM))


@pytest.mark.parametrize(
    ("name", "thread"), [("message__plain", "1793610000.000100"), ("message__thread_reply", "1793610000.000100")]
)
def test_a_message_stands_in_its_thread_or_begins_one(name: str, thread: str) -> None:
    event = event_of(name)
    properties = event["properties"]
    assert slack_context(event) == SlackContext(
        properties["integration_id"], "C0ALERTS", thread, properties["ts"], "U0ADA", "T0ACME", is_ext_shared=False
    )


@pytest.mark.parametrize(
    "change",
    [
        {"channel": None},
        {"channel": ""},
        {"channel": ["C1"]},
        {"channel": "C" * 200},
        {"ts": ""},
        {"ts": 1793610000.0001},
        {"ts": "now"},
        {"ts": "\uff11\uff12\uff13.4"},
        {"thread_ts": "<!here>"},
    ],
)
def test_what_has_no_channel_or_ts_stands_nowhere(change: Mapping[str, JsonValue]) -> None:
    event = event_of("message__thread_reply")
    event["properties"] |= change
    assert slack_context(event) is None


def test_another_event_stands_nowhere() -> None:
    assert slack_context(None) is None
    assert slack_context({"event": "$github_event_received", "properties": {"channel": "C1", "ts": "1.2"}}) is None
    assert slack_context({**event_of("message__plain"), "properties": "none"}) is None


@pytest.mark.parametrize(
    ("name", "spoken", "external"),
    [
        ("message__plain", True, False),
        ("message__thread_reply", True, False),
        ("message__thread_broadcast", True, False),
        ("message__file_share", True, False),
        ("message__me_message", True, False),
        ("message__mention", True, False),
        ("app_mention__plain", True, False),
        ("message__external_author", True, True),
        ("message__own", False, False),
        ("message__alert_bot", False, False),
    ],
)
def test_who_speaks_is_a_person_and_of_the_workspace_or_not(name: str, spoken: bool, external: bool) -> None:
    properties = parsed(fixture(name), TEAM).properties
    assert (is_spoken(properties), is_external(properties)) == (spoken, external)


def test_in_a_shared_channel_whoever_is_not_known_to_be_of_the_workspace_is_of_elsewhere() -> None:
    properties: dict[str, JsonValue] = {
        "is_ext_shared_channel": True,
        "slack_team_id": "T0ACME",
        "slack_event": {"truncated": True},
    }
    assert is_external(properties)
    assert is_external({**properties, "slack_event": {"user_team": "T0OTHER", "team": "T0ACME"}})
    assert not is_external({**properties, "slack_event": {"user_team": "T0ACME"}})


def said(text: str, number: int = 1, user: str = "U0ADA") -> SaidRow:
    return SaidRow(f"1793610000.{number:06d}", user, {"text": text}, "d", None, NOW)


_BLOCK = re.compile(r'<message_from user=("[^\n]*")>\n(.*)\n</message_from>')


@given(st.text(), st.text(max_size=50))
def test_what_somebody_said_cannot_leave_its_block(text: str, user: str) -> None:
    block, keys = said_block([said(text, user=user), said("next", 2)])
    found = _BLOCK.findall(block)
    assert len(found) == block.count("<message_from") - 1 == block.count("</message_from>") == 2  # one is in the words
    assert (json.loads(found[0][0]), json.loads(found[0][1])["text"]) == (user, text)
    assert keys == ("1793610000.000001", "1793610000.000002")


def test_a_long_message_is_cut_and_very_many_are_told_later() -> None:
    block, keys = said_block([said("x" * 100_000)])
    assert (len(keys), MOST_MESSAGE < len(block) < MOST_MESSAGE + 1_000) == (1, True)
    block, keys = said_block([said("y" * 5_000, number) for number in range(1, 21)])
    assert 1 <= len(keys) < 20
    assert len(block) < MOST_AT_ONCE + 1_000
    assert f"({20 - len(keys)} more messages follow after this round.)" in block


def test_nothing_said_is_nothing_told() -> None:
    assert said_block([]) == ("", ())


def test_files_are_told_without_their_content() -> None:
    kept = said_of(event_of("message__file_share")["properties"])
    assert kept["files"]
    assert all(set(one) <= {"name", "title", "mimetype", "size"} for one in kept["files"])  # type: ignore[union-attr,arg-type]


def thread(status: str = "working", age: float = 0, **more: Any) -> ThreadRow:
    began = NOW - timedelta(seconds=age)
    given: dict[str, Any] = {
        "task_id": "t", "project_id": "p", "workflow_id": "w", "run_id": "r", "connection_id": 1, "team_id": "T",
        "channel": "C", "thread_ts": "1.2", "message_ts": "1.2", "user": "U", "allows_external": False,
        "status": status, "reason": "", "turn": 1, "turn_at": began, "turns": [], "listens_until": None,
        "reaction": "shown", "progress_ts": "", "progress_text": "", "progress_turn": 0, "signs_at": NOW,
        "showing_until": None, "created_at": began, "updated_at": began,
    }  # fmt: skip
    return ThreadRow(**{**given, **more})


def test_the_longer_a_turn_takes_the_more_seldom_its_progress_is_told() -> None:
    ages = [0, 30, 59, 60, 299, 300, 4_000]
    assert [pace(timedelta(seconds=age)).total_seconds() for age in ages] == [3, 3, 3, 10, 10, 30, 30]


def test_a_short_turn_tells_no_progress() -> None:
    assert not due_for_progress(thread(age=2), NOW)
    assert next_look(thread(age=2), NOW, unfinished=False) == NOW + timedelta(seconds=1)
    assert due_for_progress(thread(age=3), NOW)
    assert next_look(thread(age=3), NOW, unfinished=False) == NOW + timedelta(seconds=3)
    assert not due_for_progress(thread("listening", age=300), NOW)


def test_a_thread_that_listens_is_looked_after_at_its_end_and_a_closed_one_never_again() -> None:
    until = NOW + timedelta(minutes=5)
    assert next_look(thread("listening", listens_until=until), NOW, unfinished=False) == until
    assert next_look(thread("closed"), NOW, unfinished=False) is None


def test_a_sign_that_slack_does_not_take_is_tried_for_ten_minutes() -> None:
    assert next_look(thread("closed", age=599), NOW, unfinished=True) == NOW + timedelta(seconds=15)
    assert next_look(thread("closed", age=601), NOW, unfinished=True) is None


@pytest.mark.parametrize(
    ("activity", "told"),
    [
        (None, "Working on it.  <u|The run>"),
        ({"round": 3, "phase": "asking"}, "Working on it, round 3.  <u|The run>"),
        ({"round": 3, "phase": "retrying"}, "Working on it, round 3: the model is asked again.  <u|The run>"),
        ({"round": 1, "phase": "calling", "calls": ["a", "b.c"]}, "Working on it, round 1: `a`, `b.c`.  <u|The run>"),
        ({"phase": "calling", "calls": list("abcde")}, "Working on it: `a`, `b`, `c` and 2 more.  <u|The run>"),
        ({"phase": "calling", "calls": ["<!channel>", "x`y", "a" * 99, 7]}, "Working on it.  <u|The run>"),
    ],
)
def test_progress_is_told_without_any_words_of_the_model(activity: Mapping[str, Any] | None, told: str) -> None:
    assert progress_words(activity, "u", begun=True) == told


def test_a_turn_that_nobody_works_on_yet_says_so() -> None:
    assert progress_words({}, "", begun=False) == "It waits for its turn among the tasks."


def test_a_context_needs_no_team() -> None:
    found = context_of({"channel": "C1", "ts": "1.2"})
    assert found == SlackContext(None, "C1", "1.2", "1.2", "", "", is_ext_shared=False)
