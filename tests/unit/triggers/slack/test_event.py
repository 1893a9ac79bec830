"""What a message becomes: every property, its claim, its order, and whose it is."""

from dataclasses import replace
from typing import Any

import pytest

from loops.filters import compile_filter
from tests.unit.triggers.slack.deliveries import OWN, SOURCE, delivery, fixture, parsed, properties, receive
from triggers.slack.event import MOST_BYTES, event_uuid


def test_every_property_of_a_message() -> None:
    payload = fixture("message__plain")
    event = parsed(payload, OWN | {"workspace_url": "https://acme.slack.com"})
    assert dict(event.properties) == {
        "integration_id": 3,
        "channel": "C0ALERTS",
        "channel_type": "channel",
        "slack_team_id": "T0ACME",
        "user": "U0ADA",
        "bot_id": None,
        "app_id": None,
        "own_app": False,
        "subtype": None,
        "text": "the database is on fire",
        "message_text": "the database is on fire",
        "ts": "1793610000.000100",
        "thread_ts": None,
        "is_thread_reply": False,
        "is_ext_shared_channel": False,
        "files": [],
        "slack_event": payload["event"],
    }
    assert event.name == "$slack_message_received"
    assert event.source == "slack"
    assert event.distinct_id == "U0ADA"
    assert event.subject == "slack:T0ACME:C0ALERTS:1793610000.000100"
    assert event.claim == "slack:T0ACME:C0ALERTS:1793610000.000100"
    assert event.url == "https://acme.slack.com/archives/C0ALERTS/p1793610000000100"
    assert event.verified


def test_an_event_keeps_its_id_at_every_redelivery_and_has_another_in_each_project_and_connection() -> None:
    payload = fixture("message__plain")
    again = parsed(payload).uuid
    assert again == parsed(payload).uuid == event_uuid("p", 3, "Ev0000000001")
    others = [parsed(payload, project_id="q").uuid, parsed(payload, connection_id=4).uuid]
    others.append(parsed(fixture("message__plain", event_id="Ev2")).uuid)
    assert len({again, *others}) == 4


@pytest.mark.parametrize(
    ("changes", "distinct_id"),
    [
        ({}, "U0ADA"),
        ({"user": None, "bot_id": "B0WATCH"}, "B0WATCH"),
        ({"user": None}, "C0ALERTS"),
        ({"user": None, "channel": None}, "T0ACME"),
    ],
)
def test_an_event_is_about_the_user_else_the_bot_the_channel_the_workspace(changes: Any, distinct_id: str) -> None:
    assert parsed(fixture("message__plain", changes)).distinct_id == distinct_id


@pytest.mark.parametrize(
    ("name", "subtype"),
    [
        ("message__plain", None),
        ("message__alert_bot", "bot_message"),
        ("message__file_share", "file_share"),
        ("message__me_message", "me_message"),
        ("message__thread_broadcast", "thread_broadcast"),
        ("app_mention__plain", None),
    ],
)
def test_what_somebody_has_just_posted_is_an_event(name: str, subtype: str | None) -> None:
    assert properties(fixture(name))["subtype"] == subtype


def test_sl_05_a_message_and_its_mention_are_one_fact_and_differ_in_their_ids() -> None:
    message, mention = parsed(fixture("message__mention")), parsed(fixture("app_mention__plain"))
    assert message.claim == mention.claim == "slack:T0ACME:C0ALERTS:1793610001.000200"
    assert message.subject == mention.subject
    assert message.uuid != mention.uuid
    assert parsed(fixture("message__mention", event_id="Ev9")).claim == message.claim
    assert parsed(fixture("message__plain")).claim != message.claim


@pytest.mark.parametrize("name", ["message__thread_reply", "message__thread_broadcast"])
def test_sl_07_a_reply_is_a_reply_also_when_it_is_told_to_the_channel(name: str) -> None:
    event = parsed(fixture(name))
    assert event.properties["thread_ts"] == "1793610000.000100"
    assert event.properties["is_thread_reply"] is True
    assert event.subject == "slack:T0ACME:C0ALERTS:1793610000.000100"
    assert event.claim != event.subject
    top_level = compile_filter({"properties": [{"key": "thread_ts", "operator": "is_not_set"}]})
    assert not top_level.matches(event)
    assert top_level.matches(parsed(fixture("message__plain")))


def test_the_first_message_of_a_thread_is_no_reply_where_slack_gives_it_a_thread() -> None:
    found = properties(fixture("message__plain", {"thread_ts": "1793610000.000100"}))
    assert found["is_thread_reply"] is False


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        (OWN, {}),
        ({"app_id": "A0LOOPS"}, {"bot_id": None, "bot_profile": None, "user": "U0X"}),
        ({"bot_id": "B0LOOPS"}, {"app_id": None, "bot_profile": None, "user": None}),
        ({"user_id": "U0LOOPS"}, {"app_id": None, "bot_id": None, "bot_profile": None}),
        # What Slack says with the event is enough: the token was not checked yet.
        ({}, {"bot_id": None, "user": None}),
        ({}, {"app_id": None, "bot_id": None, "bot_profile": None}),
        ({}, {"app_id": None, "user": "U0X"}),
    ],
)
def test_sl_08_the_apps_own_posts_are_known_by_its_app_bot_or_user(settings: Any, changes: Any) -> None:
    payload = fixture("message__own", changes)
    if settings:
        payload |= {"api_app_id": None, "authorizations": []}
    assert properties(payload, **settings)["own_app"] is True


def test_other_apps_and_people_are_not_ours() -> None:
    assert properties(fixture("message__alert_bot"), **OWN)["own_app"] is False
    assert properties(fixture("message__plain"), **OWN)["own_app"] is False
    # A person who installed the app for themselves is no bot of ours.
    person = [{"team_id": "T0ACME", "user_id": "U0ADA", "is_bot": False}]
    assert properties(fixture("message__plain", authorizations=person))["own_app"] is False
    nobody = fixture("message__plain", {"user": "", "app_id": ""}, api_app_id="", authorizations=[{"is_bot": True}])
    assert properties(nobody, app_id="", user_id="")["own_app"] is False


def test_sl_09_a_message_with_files_lists_them_and_nothing_is_fetched() -> None:
    found = properties(fixture("message__file_share"))
    assert found["text"] == "here is the log"
    assert found["files"] == [
        {
            "id": "F0LOG",
            "name": "db.log",
            "title": "db.log",
            "mimetype": "text/plain",
            "filetype": "text",
            "size": 2048,
            "is_external": False,
            "permalink": "https://acme.slack.com/files/U0ADA/F0LOG/db.log",
        },
        {
            "id": "F0DOC",
            "name": "Runbook",
            "title": None,
            "mimetype": "text/html",
            "filetype": "gdoc",
            "size": 0,
            "is_external": True,
            "permalink": "https://acme.slack.com/files/U0ADA/F0DOC/runbook",
        },
    ]


def test_sl_15_an_alarm_without_text_is_found_by_what_its_blocks_and_attachments_say() -> None:
    event = parsed(fixture("message__alert_bot"))
    assert event.properties["text"] == ""
    for words in ("CRITICAL db", "Alarm", "97 % of /var used", "Host: db1", "paging"):
        wanted: Any = {"key": "message_text", "operator": "icontains", "value": words}
        assert compile_filter({"properties": [wanted]}).matches(event), words


def test_sl_17_the_workspace_is_that_of_the_installation_not_of_the_author() -> None:
    event = parsed(fixture("message__external_author"))
    assert event.properties["slack_team_id"] == "T0ACME"
    assert event.properties["is_ext_shared_channel"] is True
    assert event.claim == "slack:T0ACME:C0ALERTS:1793610400.001300"


def test_an_organizations_installation_takes_the_workspace_of_the_event() -> None:
    assert properties(fixture("message__enterprise_grid"))["slack_team_id"] == "T0ACME"
    nowhere = fixture("message__enterprise_grid", team_id=None, context_team_id=None)
    assert properties(nowhere)["slack_team_id"] == "E0ORG"


def test_sl_18_the_same_event_in_two_projects_is_an_event_of_each() -> None:
    ours, theirs = parsed(fixture("message__plain")), parsed(fixture("message__plain"), project_id="q", connection_id=4)
    assert ours.uuid != theirs.uuid
    assert theirs.properties["integration_id"] == 4
    assert ours.claim == theirs.claim


def test_a_message_without_a_place_is_its_own_fact() -> None:
    event = parsed(fixture("message__plain", {"ts": None}))
    assert (event.claim, event.subject, event.url) == ("slack:Ev0000000001", None, None)


def test_an_address_is_made_of_what_can_stand_in_one() -> None:
    settings = {"workspace_url": "https://acme.slack.com"}
    for changes in ({"channel": "C0/../x"}, {"ts": "1.2/3"}, {"ts": "now"}, {"channel": None}):
        assert parsed(fixture("message__plain", changes), settings).url is None
    assert parsed(fixture("message__plain")).url is None


def test_a_whole_event_that_is_too_large_is_left_out_and_the_rest_stays() -> None:
    found = properties(fixture("message__plain", {"attachments": [{"footer": "x", "ts": "9" * MOST_BYTES}]}))
    assert found["slack_event"] == {"truncated": True}
    assert found["channel"] == "C0ALERTS"
    just_fits = fixture("message__plain", {"attachments": [{"ts": "9" * (MOST_BYTES - 2000)}]})
    assert properties(just_fits)["slack_event"] == just_fits["event"]


def test_what_is_not_verified_does_not_become_so() -> None:
    payload = fixture("message__plain")
    (event,) = SOURCE.parse(replace(delivery(payload), verified=False), receive(payload).parsed, {})  # type: ignore[misc]
    assert not event.verified


CASES = [
    # number, filters, changes of the event, whether it passes
    (20, [("channel", "exact", ["C0ALERTS"])], {}, True),
    (21, [("channel", "exact", ["C0ALERTS|#alerts"])], {}, False),
    (22, [("bot_id", "is_not_set", None)], {}, True),
    (23, [("bot_id", "is_not_set", None)], {"bot_id": "B42"}, False),
    (24, [("bot_id", "is_set", None)], {"bot_id": "B42"}, True),
    (25, [("bot_id", "is_set", None)], {}, False),
    (26, [("user", "exact", ["U123", "U456"])], {"user": "U123"}, True),
    (27, [("user", "exact", ["U123", "U456"])], {"user": "U999"}, False),
    (28, [("thread_ts", "is_not_set", None)], {}, True),
    (29, [("thread_ts", "is_not_set", None)], {"thread_ts": "1699999999.000000"}, False),
    (30, [("text", "icontains", ["fire"])], {"text": "the database is on fire"}, True),
    (31, [("text", "icontains", ["fire"])], {"text": "deploy finished"}, False),
    (32, [("channel", "exact", ["C0ALERTS"]), ("bot_id", "is_not_set", None)], {}, True),
    (32, [("channel", "exact", ["C0ALERTS"]), ("bot_id", "is_not_set", None)], {"bot_id": "B42"}, False),
]


@pytest.mark.parametrize(("_number", "wanted", "changes", "passes"), CASES, ids=[f"case-{one[0]}" for one in CASES])
def test_filters_of_slack_triggers(_number: int, wanted: Any, changes: Any, passes: bool) -> None:
    filters: Any = [
        {"key": key, "operator": operator, "type": "event", **({} if value is None else {"value": value})}
        for key, operator, value in wanted
    ]
    assert compile_filter({"properties": filters}).matches(parsed(fixture("message__plain", changes))) is passes
