"""What PostHog sends, as events."""

import copy
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from loops.errors import PayloadMalformed
from tests.unit.triggers.posthog.deliveries import RECEIVED, SOURCE, captured, delivery, fixture, packed, parsed
from triggers.posthog.event import LONGEST_NAME, MOST_EVENTS, api_key
from triggers.posthog.people import People, enriched
from triggers.posthog.receive import MIGRATION
from triggers.source import Arrival, Ignored, Incoming, Topic

UUID = "6a0f6a3e-2f2e-4a59-8a3a-0b8d1a1f5a01"


def arrival(value: Any) -> Arrival:
    return SOURCE.captured(value, 1000, 1000)


def event(**more: Any) -> dict[str, Any]:
    return {"event": "signed_up", "distinct_id": "ada", "uuid": UUID, **more}


# Webhook destinations


def test_the_body_of_a_webhook_destination_is_one_event_with_its_person() -> None:
    (found,) = parsed(fixture("webhook__pageview"))
    assert (found.name, found.source, found.distinct_id) == ("$pageview", "posthog", "ada")
    assert found.uuid == "0198c1f2-6f0a-7c3e-9a51-2f8d0b6c4e11"
    assert found.timestamp == datetime(2026, 11, 2, 8, 59, 58, 250_000, tzinfo=UTC)
    assert found.properties["$browser"] == "Firefox"
    assert found.url is not None
    assert found.url.startswith("https://eu.posthog.com/project/7/events/")
    assert found.person is not None
    assert found.person.properties["plan"] == "pro"
    assert (found.subject, found.claim) == ("person:ada", f"posthog:{found.uuid}")


def test_the_body_of_2024_is_read_with_its_older_names() -> None:
    (found,) = parsed(fixture("webhook__2024"))
    assert (found.name, found.distinct_id) == ("$pageview", "1234")
    assert found.person is not None
    assert (found.person.id, found.person.name) == ("018f0000-aaaa-7000-8000-000000000000", "bob@widgets.example")


def test_a_body_in_a_template_of_its_own_is_an_event_with_what_it_holds() -> None:
    (found,) = parsed(fixture("webhook__own_template"))
    assert (found.name, found.distinct_id, found.timestamp) == ("$webhook_received", "unknown", RECEIVED)
    assert dict(found.properties) == {
        "source": "posthog",
        "label": "conversion",
        "username": "bob@widgets.example",
        "at": "2026-11-02T12:00:00",
    }


def test_a_template_may_put_the_parts_at_the_top() -> None:
    (found,) = parsed({"event": "signed_up", "distinct_id": 7, "properties": {"plan": "pro"}, "uuid": UUID})
    assert (found.name, found.distinct_id, found.uuid, dict(found.properties)) == (
        "signed_up",
        "7",
        UUID,
        {"plan": "pro"},
    )


def test_a_person_of_the_body_stands_in_for_a_distinct_id_that_it_lacks() -> None:
    (found,) = parsed({"event": {"event": "x"}, "person": {"id": "p-1", "properties": None}})
    assert found.distinct_id == "p-1"


def test_groups_of_the_body_are_kept() -> None:
    groups = {"company": {"id": "acme", "type": "company", "properties": {"plan": "pro"}}, "odd": 3}
    (found,) = parsed({"event": {"event": "x", "distinct_id": "a"}, "groups": groups})
    assert dict(found.groups) == {"company": groups["company"]}


def test_the_clicked_elements_stand_among_the_properties_as_captures_have_them() -> None:
    chain = 'button.pay:text="Pay"'
    (found,) = parsed(
        {"event": {"event": "$autocapture", "distinct_id": "a", "elements_chain": chain, "properties": {}}}
    )
    assert dict(found.properties) == {"$elements_chain": chain}
    (found,) = parsed(fixture("webhook__pageview"))
    assert "$elements_chain" not in found.properties


def test_only_a_connection_with_a_secret_makes_verified_events() -> None:
    body = packed({"event": {"event": "x", "distinct_id": "a"}})
    assert not SOURCE.receive(Incoming({}, body), {"api_key": "phc_1"}).verified
    known = SOURCE.receive(Incoming({"x-secret": "s"}, body), {"webhook_secret": "s"})
    assert known.verified
    # The header with the id is not signed here, so it names nothing.
    other = SOURCE.receive(Incoming({"x-secret": "s", "webhook-id": "k"}, body), {"webhook_secret": "s"})
    assert other.key != "k"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"event": 5}, "event must"),
        ({"event": {"event": ""}}, "event.event"),
        ({"event": {"event": ["x"]}}, "event.event"),
        ({"event": {"event": "x" * (LONGEST_NAME + 1)}}, "event.event"),
        ({"event": {"event": "x", "distinct_id": "x" * (LONGEST_NAME + 1)}}, "event.distinct_id"),
        ({"event": {"event": "x", "properties": []}}, "event.properties"),
    ],
)
def test_a_webhook_whose_field_does_not_fit_is_told_which(body: Any, path: str) -> None:
    with pytest.raises(PayloadMalformed) as caught:
        parsed(body)
    assert caught.value.message.startswith(path)
    assert caught.value.path == path.removesuffix(" must")
    assert caught.value.hint


# Captures


def test_a_batch_is_as_many_events_each_with_its_own_uuid() -> None:
    batch = fixture("capture__batch")
    found = captured(batch)
    assert [one.name for one in found] == ["signed_up", "$set", "$set_once", "$create_alias", "$groupidentify"]
    assert [one.uuid for one in found] == [entry["uuid"] for entry in batch["batch"]]
    assert not any(one.verified for one in found)
    assert found[0].timestamp == datetime(2026, 11, 2, 8, 59, 59, 500_000, tzinfo=UTC)
    assert found[1].timestamp == RECEIVED


def test_what_stands_beside_the_properties_is_put_among_them() -> None:
    found = captured({"batch": [event(**{"$set": {"a": 1}, "properties": {"$set": {"a": 0, "b": 2}, "token": "phc"}})]})
    assert dict(found[0].properties) == {"$set": {"a": 1, "b": 2}}


def test_one_event_of_a_browser_is_read_with_its_offset_and_its_id_among_the_properties() -> None:
    (found,) = captured(fixture("capture__browser_event"))
    assert (found.distinct_id, found.url) == ("0198-anon", "https://widgets.example/")
    assert found.timestamp == RECEIVED - timedelta(seconds=1.5)


def test_a_list_of_events_is_a_batch() -> None:
    assert [one.distinct_id for one in captured([event(uuid=None), event(uuid=None, distinct_id=5)])] == ["ada", "5"]


def test_an_event_without_a_uuid_gets_one_of_its_delivery_and_place() -> None:
    batch = {"batch": [event(uuid=None), event(uuid="")]}
    first = [one.uuid for one in SOURCE.parse(delivery("capture x", packed(batch), key="k1"), None, {})]  # type: ignore[union-attr]
    again = [one.uuid for one in SOURCE.parse(delivery("capture x", packed(batch), key="k1"), None, {})]  # type: ignore[union-attr]
    other = [one.uuid for one in SOURCE.parse(delivery("capture x", packed(batch), key="k2"), None, {})]  # type: ignore[union-attr]
    assert first == again
    assert len({*first, *other}) == 4


def test_a_text_that_is_no_uuid_stands_for_one_and_is_the_same_each_time() -> None:
    (first,), (again,) = parsed({"event": event(uuid="order-7")}), captured({"batch": [event(uuid="order-7")]})
    assert first.uuid == again.uuid
    assert str(uuid.UUID(first.uuid)) == first.uuid


def test_the_insert_id_of_older_sdks_is_a_uuid_too() -> None:
    def ids(**more: Any) -> str:
        return captured({"batch": [event(uuid=None, properties={"$insert_id": "abc"}, **more)]})[0].uuid

    assert ids() == ids(timestamp="2026-11-02T08:00:00Z")
    assert ids() != ids(distinct_id="bob")


def test_an_event_that_stands_twice_in_a_batch_is_one() -> None:
    assert len(captured({"batch": [event(), event(), event(uuid=None), event(uuid=None)]})) == 3


def test_a_batch_that_is_sent_again_has_the_same_key_and_another_has_not() -> None:
    batch = fixture("capture__batch")
    again = {**batch, "sent_at": "2026-11-02T09:09:09Z"}
    less = {**batch, "batch": batch["batch"][1:]}
    assert arrival(batch).key == arrival(again).key != arrival(less).key


def test_batches_that_look_the_same_without_ids_are_two() -> None:
    one = {"batch": [event(uuid=None)]}
    assert arrival(one).key != arrival(one).key


def test_the_key_of_a_capture_is_never_that_of_a_webhook() -> None:
    webhook = SOURCE.receive(Incoming({}, packed({"event": event()})), {})
    assert webhook.key == UUID
    assert arrival({"batch": [event()]}).key == f"capture:{UUID}"


@pytest.mark.parametrize(
    "name", ["$github_event_received", "$slack_message_received", "$scheduled", "$workflow_triggered", "$workflow_x"]
)
def test_a_capture_may_not_name_an_event_that_loops_makes(name: str) -> None:
    found = arrival({"batch": [event(event=name)]})
    assert found.ignored is not None
    assert name in found.ignored
    kept = captured(
        {"batch": [event(event=name), event(event="$github", uuid=None), event(event="scheduled", uuid=None)]}
    )
    assert [one.name for one in kept] == ["$github", "scheduled"]


def test_an_empty_batch_and_a_historical_migration_start_nothing() -> None:
    assert arrival({"batch": []}).ignored == "the batch holds no events"
    old = {"batch": [event()], "historical_migration": True}
    assert arrival(old).ignored == MIGRATION
    assert SOURCE.parse(delivery("capture signed_up", packed(old)), None, {}) == Ignored(MIGRATION)


def test_the_name_of_a_delivery_tells_how_it_came_and_of_what() -> None:
    assert arrival(fixture("capture__batch")).name == "capture signed_up, $set, $set_once and 2 more"
    body = packed(fixture("webhook__pageview"))
    assert SOURCE.receive(Incoming({}, body), {}).name == "webhook $pageview"


def test_order_is_kept_where_a_delivery_is_about_one_person() -> None:
    assert arrival({"batch": [event(), event(uuid=None)]}).subject == "person:ada"
    assert arrival({"batch": [event(), event(uuid=None, distinct_id="bob")]}).subject is None


def test_what_changes_nobody_says_where_it_stands_in_the_index() -> None:
    plain = {"batch": [event(), event(event="b", uuid=None, properties={"repository": "A/B", "channel": "C1"})]}
    assert set(arrival(plain).topics or ()) == {Topic("signed_up"), Topic("b", "a/b", None, "C1")}
    for more in (
        {"$set": {"a": 1}},
        {"$set_once": {"a": 1}},
        {"properties": {"$unset": ["a"]}},
        {"event": "$identify"},
        {"event": "$create_alias"},
        {"event": "$groupidentify"},
        {"properties": {"repository": 5}},
    ):
        assert arrival({"batch": [event(**more)]}).topics is None, more
    assert SOURCE.receive(Incoming({}, packed(fixture("webhook__pageview"))), {}).topics is None


def test_what_unpacks_to_many_times_its_size_is_not_kept_decoded() -> None:
    value: Any = {"batch": [event()]}
    assert SOURCE.captured(value, 100, 800).parsed
    assert SOURCE.captured(value, 100, 801).parsed is None


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"event": None}, "batch[1].event must"),
        ({"event": " "}, "batch[1].event must"),
        ({"event": "x" * (LONGEST_NAME + 1)}, "batch[1].event is longer"),
        ({"distinct_id": None}, "batch[1].distinct_id is missing"),
        ({"distinct_id": ""}, "batch[1].distinct_id is missing"),
        ({"distinct_id": "x" * (LONGEST_NAME + 1)}, "batch[1].distinct_id is longer"),
        ({"properties": "x"}, "batch[1].properties must"),
    ],
)
def test_an_event_whose_field_does_not_fit_is_told_where(change: dict[str, Any], path: str) -> None:
    with pytest.raises(PayloadMalformed) as caught:
        arrival({"batch": [event(), {**event(uuid=None), **change}]})
    assert caught.value.message.startswith(path)
    assert caught.value.path == path.partition(" ")[0]
    assert caught.value.hint


@pytest.mark.parametrize("value", [7, True, [], ["a"], {"a": None}, 2**70, 1.5], ids=repr)
def test_what_is_no_text_in_the_place_of_an_id_stands_for_one_the_same_each_time(value: Any) -> None:
    (first,), (again,) = captured({"batch": [event(uuid=value)]}), parsed({"event": event(uuid=value)})
    assert first.uuid == again.uuid
    assert first.uuid != captured({"batch": [event(uuid="another")]})[0].uuid
    (found,) = captured({"batch": [event(distinct_id=value)]})
    assert found.distinct_id == json.dumps(value, separators=(",", ":"))
    assert found.distinct_id == parsed({"event": event(distinct_id=value)})[0].distinct_id


@pytest.mark.parametrize(
    ("inner", "outer", "kept"),
    [(None, 5, 5), ({"a": 1}, "x", "x"), ("x", {"a": 1}, {"a": 1}), ([], None, []), (3, 4, 4)],
    ids=repr,
)
def test_a_change_that_is_no_object_stays_what_it_is_and_changes_nobody(inner: Any, outer: Any, kept: Any) -> None:
    given = {"$set": outer, "properties": {"$set": inner}}
    (found,) = captured({"batch": [event(**given)]})
    assert found.properties["$set"] == kept
    (known,) = enriched([found], People())
    assert known.person is not None
    assert known.person.properties == (kept if isinstance(kept, dict) else {})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"batch": "x"}, "batch must be a list"),
        ({"batch": None}, "batch must be a list"),
        ({"batch": [5]}, "batch[0] must be an object"),
        ([None], "batch[0] must be an object"),
        (5, "the body must be"),
        ("x", "the body must be"),
        (None, "the body must be"),
        ({}, "distinct_id is missing"),
        ({"distinct_id": "a"}, "event is missing"),
        ({"batch": [event(uuid=None)] * (MOST_EVENTS + 1)}, f"batch holds {MOST_EVENTS + 1} events"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_body_that_is_no_capture_is_told_what_is_wrong(body: Any, said: str) -> None:
    with pytest.raises(PayloadMalformed) as caught:
        arrival(body)
    assert caught.value.message.startswith(said)


@pytest.mark.parametrize(
    "body",
    [
        {"api_key": "phc", "batch": []},
        {"token": "phc", "event": "x"},
        {"batch": [{"api_key": "phc"}]},
        [{"event": "x", "properties": {"token": "phc"}}],
    ],
    ids=repr,
)
def test_the_project_api_key_is_found_where_sdks_put_it(body: Any) -> None:
    assert api_key(body) == "phc"


@pytest.mark.parametrize("body", [None, 5, [], {}, [5], {"batch": 5}, {"api_key": 5}, {"api_key": ""}], ids=repr)
def test_a_body_without_a_key_has_none(body: Any) -> None:
    assert api_key(body) is None


@pytest.mark.parametrize("stamp", ["soon", "", 5, None, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", {}])
def test_a_timestamp_that_cannot_be_read_is_that_of_the_arrival(stamp: Any) -> None:
    assert captured({"batch": [event(timestamp=stamp)]})[0].timestamp == RECEIVED


@pytest.mark.parametrize("offset", [-1, True, "5", 1e300, None])
def test_an_offset_that_makes_no_sense_counts_nothing(offset: Any) -> None:
    assert captured({"batch": [event(offset=offset)]})[0].timestamp == RECEIVED


def test_parsing_changes_nothing_about_the_body() -> None:
    batch = fixture("capture__batch")
    before = copy.deepcopy(batch)
    arrival(batch)
    assert batch == before
