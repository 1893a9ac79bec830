"""What is known of persons and groups after each event."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.event import Event, Person
from tests.unit.triggers.posthog.deliveries import captured, fixture, parsed
from triggers.posthog.people import MOST_BYTES, MOST_GROUPS, Group, People, enriched, named

NOW = datetime(2026, 11, 2, tzinfo=UTC)


def told(name: str = "x", who: str = "ada", person: Person | None = None, **properties: Any) -> Event:
    named_properties = {key.replace("_S_", "$"): value for key, value in properties.items()}
    return Event("u", name, "posthog", who, NOW, named_properties, person=person)


def of(people: People, who: str = "ada") -> dict[str, Any]:
    return dict(people.persons.get(who, {}))


def after(*events: Event, people: People | None = None) -> People:
    known = people or People()
    enriched(events, known)
    return known


def test_a_batch_leaves_behind_what_it_says_of_its_person_and_group() -> None:
    people = People()
    events = enriched(captured(fixture("capture__batch")), people, ("project", "company"))
    assert of(people) == {"email": "ada@widgets.example", "first_seen": "2026-11-01", "role": "admin"}
    assert people.groups == {Group("company", "acme"): {"name": "Acme", "employees": 11}}
    first, second, *_ = events
    assert first.person is not None
    assert second.person is not None
    # Each event sees what was known after it, not after its batch.
    assert first.person.properties == {"email": "ada@widgets.example", "first_seen": "2026-11-01"}
    assert second.person.properties["role"] == "admin"
    assert first.groups == {"company": {"id": "acme", "type": "company", "index": 1, "properties": {}}}


def test_set_sets_set_once_fills_and_unset_takes_away() -> None:
    people = People({"ada": {"a": 1, "b": 1, "c": 1}})
    after(told(_S_set={"a": 2}, _S_set_once={"b": 2, "d": 2}, _S_unset=["c", 5, "e"]), people=people)
    assert of(people) == {"a": 2, "b": 1, "d": 2}


def test_set_wins_over_set_once_in_one_event() -> None:
    assert of(after(told(_S_set={"a": 1}, _S_set_once={"a": 2}))) == {"a": 1}


def test_identify_gives_the_user_what_the_anonymous_id_had_and_it_has_not() -> None:
    people = People({"anon": {"a": "anon", "b": "anon"}, "ada": {"b": "ada"}})
    after(told("$identify", _S_anon_distinct_id="anon", _S_set={"c": "new"}), people=people)
    assert of(people) == {"a": "anon", "b": "ada", "c": "new"}
    assert of(people, "anon") == {"a": "anon", "b": "anon"}


@pytest.mark.parametrize("name", ["$create_alias", "$merge_dangerously"])
def test_an_alias_gives_both_ids_what_the_other_has_and_they_have_not(name: str) -> None:
    people = People({"anon": {"a": 1, "b": 1}, "ada": {"b": 2, "c": 2}})
    after(told(name, alias="anon"), people=people)
    assert of(people) == {"a": 1, "b": 2, "c": 2}
    assert of(people, "anon") == {"a": 1, "b": 1, "c": 2}


@pytest.mark.parametrize("nobody", ["", "anonymous", "NULL", "undefined", "0", "ada", True, None, [], "x" * 500])
def test_ids_that_stand_for_nobody_are_not_merged(nobody: Any) -> None:
    people = People({str(nobody): {"a": 1}, "bob": {}})
    after(told("$identify", "bob" if nobody != "ada" else "ada", _S_anon_distinct_id=nobody), people=people)
    assert "bob" not in people.changed_persons
    assert people.changed_persons <= {"bob"}


def test_an_event_without_a_person_profile_has_no_person_and_changes_none() -> None:
    people = People({"ada": {"a": 1}})
    (event,) = enriched([told(_S_process_person_profile=False, _S_set={"a": 2})], people)
    assert event.person is None
    assert of(people) == {"a": 1}


def test_a_person_nobody_spoke_of_has_an_id_a_name_and_no_properties() -> None:
    first, second, other = enriched([told(), told(), told(who="bob")], People())
    assert first.person == second.person
    assert first.person is not None
    assert other.person is not None
    assert first.person.id != other.person.id
    assert (first.person.name, first.person.properties) == ("ada", {})


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"email": "a@b.c", "name": "Ada"}, "a@b.c"),
        ({"email": 5, "name": "Ada"}, "Ada"),
        ({"email": "", "username": "ada7"}, "ada7"),
        ({"plan": "pro"}, "ada"),
    ],
)
def test_a_person_is_named_by_address_name_or_id(properties: dict[str, Any], name: str) -> None:
    (event,) = enriched([told()], People({"ada": properties}))
    assert event.person is not None
    assert event.person.name == name


def test_the_person_that_posthog_sends_is_the_events_and_is_remembered() -> None:
    people = People({"ada": {"kept": 1, "plan": "free"}})
    (event,) = enriched(parsed(fixture("webhook__pageview")), people)
    assert event.person is not None
    assert event.person.properties == {"email": "ada@widgets.example", "plan": "pro"}
    assert event.person.id == "0198c000-0000-7000-8000-000000000001"
    assert of(people) == {"kept": 1, "email": "ada@widgets.example", "plan": "pro"}


def test_case_87_groups_of_an_event_are_known_by_type_with_posthogs_index() -> None:
    people = People(groups={Group("company", "acme"): {"plan": "pro"}})
    event = told(_S_groups={"company": "acme", "project": 7, "odd": [], "none": ""})
    (found,) = enriched([event], people, ("company",))
    assert found.groups == {
        "company": {"id": "acme", "type": "company", "index": 0, "properties": {"plan": "pro"}},
        "project": {"id": "7", "type": "project", "index": None, "properties": {}},
    }


def test_an_event_belongs_to_at_most_as_many_groups_as_posthog_has() -> None:
    (found,) = enriched([told(_S_groups={f"g{n}": "k" for n in range(50)})], People())
    assert len(found.groups) == MOST_GROUPS


def test_a_change_that_would_be_too_much_is_not_made_and_counted() -> None:
    people = People({"ada": {"a": 1}})
    after(told(_S_set={"long": "x" * MOST_BYTES}), told("$groupidentify", _S_group_type="c", _S_group_key="k",
          _S_group_set={"long": "x" * MOST_BYTES}), people=people)  # fmt: skip
    assert of(people) == {"a": 1}
    assert people.refused == 2
    assert not people.changed_persons
    assert not people.changed_groups


def test_what_changes_nothing_is_not_stored() -> None:
    people = People({"ada": {"a": 1}})
    after(told(_S_set={"a": 1}), told(), told(who="bob", _S_set={}), people=people)
    assert not people.changed_persons


def test_whom_events_speak_of_is_known_before_they_are_read() -> None:
    who = named(
        [
            told(_S_groups={"company": "acme"}),
            told(who="bob", _S_set={"a": 1}),
            told("$identify", "cid", _S_anon_distinct_id="anon"),
            told("$groupidentify", "dan", _S_group_type="company", _S_group_key="beta"),
        ]
    )
    assert who.persons == {"ada", "bob", "cid", "anon", "dan"}
    assert who.changing_persons == {"bob", "cid", "anon"}
    assert who.groups == {Group("company", "acme"), Group("company", "beta")}
    assert who.changing_groups == {Group("company", "beta")}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["$set", "$set_once", "$unset", "$groups", "$group_type", "$group_key", "$group_set", "$anon_distinct_id", "alias"]
)
EVENTS = st.builds(
    lambda name, who, properties: Event("u", name, "posthog", who, NOW, properties),
    st.sampled_from(["x", "$identify", "$create_alias", "$groupidentify"]),
    st.sampled_from(["a", "b", "null"]),
    st.dictionaries(KEYS, VALUES, max_size=5),
)


@given(st.lists(EVENTS, max_size=5))
def test_said_again_it_comes_to_the_same_and_only_who_was_named_is_changed(events: list[Event]) -> None:
    who, people = named(events), People()
    enriched(events, people)
    assert people.changed_persons <= who.changing_persons
    assert people.changed_groups <= who.changing_groups
    last = People(dict(people.persons), dict(people.groups))
    enriched(events[-1:], last)
    assert (last.persons, last.groups) == (people.persons, people.groups)
