from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.event import Event
from loops.filters import compile_filter
from tests.unit.filters.events import GITHUB, event
from triggers.masking import Mask, Rule
from triggers.matcher import NEAR_MISSES, Index, Listener, TriggerKind, explain

FIELDS = ("repository", "event_type", "channel", "action", "title")
VALUES = ("a", "b", "A", "5")

texts = st.sampled_from(VALUES)
wishes = texts | st.lists(texts | st.just(5), min_size=1, max_size=3)
properties = st.lists(
    st.builds(
        lambda key, operator, value: {"key": key, "operator": operator, "value": value},
        st.sampled_from(FIELDS),
        st.sampled_from(["exact", "exact", "exact", "is_not", "is_set", "is_not_set", "icontains"]),
        wishes,
    ),
    max_size=4,
)
wanted_events = st.lists(
    st.builds(
        lambda name, own: {"id": name, "properties": own}, st.sampled_from(["x", "y", None]), properties | st.just([])
    ),
    max_size=2,
)
filters = st.builds(lambda events, own: {"events": events, "properties": own}, wanted_events, properties)
kinds = st.sampled_from(["internal-event", "event"])
projects = st.sampled_from(["p", "q"])
listeners = st.lists(st.tuples(filters, kinds, projects), max_size=12).map(
    lambda made: [listener(f"w{n}", wanted, kind, project) for n, (wanted, kind, project) in enumerate(made)]
)
# Values that are no strings, or cannot be hashed, are compared by coercion.
odd = st.sampled_from([5, 5.0, True, ["a"], {"a": 1}])
events = st.builds(
    lambda name, source, held: event(held, name=name, source=source),
    st.sampled_from(["x", "y", "z"]),
    st.sampled_from(["github", "posthog"]),
    st.dictionaries(st.sampled_from(FIELDS), st.none() | texts | texts | odd),
)


def listener(
    key: str, wanted: Any, kind: TriggerKind = "internal-event", project: str = "p", version: int = 1
) -> Listener:
    return Listener(key, compile_filter(wanted), 0, version, project, kind)


def exactly(**wanted: Any) -> dict[str, Any]:
    return {
        "events": [{"id": GITHUB, "type": "events"}],
        "properties": [{"key": key, "value": value} for key, value in wanted.items()],
    }


def index_of(*wanted: Listener) -> Index:
    index = Index()
    for one in wanted:
        index.add(one)
    return index


def naive(all_of_them: list[Listener], project: str, occurred: Event) -> set[str]:
    kind = "event" if occurred.source == "posthog" else "internal-event"
    return {
        one.key
        for one in all_of_them
        if one.project_id == project and one.kind == kind and one.filter.matches(occurred)
    }


@given(wanted=listeners, occurred=events, project=projects)
def test_the_index_agrees_with_asking_every_listener(wanted: list[Listener], occurred: Event, project: str) -> None:
    matches = index_of(*wanted).match(project, occurred)
    passed = [one.key for one in matches.passed]
    assert sorted(passed) == sorted(naive(wanted, project, occurred))
    missed = [one.key for one in matches.missed]
    assert len(set(missed)) == len(missed)
    assert not set(missed) & set(passed)
    for one, compared in matches.near:
        assert one.project_id == project
        assert not all(comparison.passed for comparison in compared)


@given(wanted=listeners, removed=st.sets(st.integers(0, 11)), occurred=events)
def test_what_is_removed_or_replaced_leaves_nothing_behind(
    wanted: list[Listener], removed: set[int], occurred: Event
) -> None:
    index = index_of(*wanted)
    left = [one for number, one in enumerate(wanted) if number not in removed]
    for number, one in enumerate(wanted):
        if number in removed:
            index.remove(one.key)
    assert {one.key for one in index.listeners()} == {one.key for one in left}
    for project in ("p", "q"):
        matches = index.match(project, occurred)
        assert {one.key for one in matches.passed} == naive(left, project, occurred)
        assert {one.key for one in matches.missed} <= {one.key for one in left}
    for one in left:
        index.add(listener(one.key, {"events": [{"id": "z"}]}, one.kind, one.project_id, version=2))
    assert len(index) == len(left)
    for one in left:
        index.remove(one.key)
    assert len(index) == 0
    assert index._tables == {}


@given(wanted=listeners, occurred=events, project=projects)
def test_an_explanation_agrees_with_the_index_for_every_listener(
    wanted: list[Listener], occurred: Event, project: str
) -> None:
    passed = {one.key for one in index_of(*wanted).match(project, occurred).passed}
    for one in wanted:
        verdict = explain(one, project, occurred)
        assert verdict.passed is (one.key in passed)
        assert verdict.passed is (verdict.stage == "start")
        assert verdict.reason


def test_adding_a_known_key_replaces_the_listener() -> None:
    index = index_of(listener("w", exactly(repository="a/b")), listener("w", exactly(repository="a/c"), version=2))
    assert len(index) == 1
    assert "w" in index
    assert not index.match("p", event({"repository": "a/b"})).passed
    assert [one.version for one in index.match("p", event({"repository": "a/c"})).passed] == [2]


def test_removing_an_unknown_key_changes_nothing() -> None:
    index = index_of(listener("w", exactly(repository="a/b")))
    index.remove("other")
    assert len(index) == 1


def test_gh_17_a_repository_is_found_in_any_case() -> None:
    index = index_of(listener("w", exactly(repository="Acme/Widgets")))
    for name in ("acme/widgets", "Acme/Widgets"):
        assert [one.key for one in index.match("p", event({"repository": name})).passed] == ["w"]


def test_another_action_is_a_near_miss_and_another_repository_is_not() -> None:
    index = index_of(
        listener("opened", exactly(repository="a/b", action=["opened", "reopened"])),
        listener("closed", exactly(repository="a/b", action=["closed", "opened"])),
        listener("elsewhere", exactly(repository="a/c", action="closed")),
    )
    matches = index.match("p", event({"repository": "a/b", "action": "closed"}))
    assert [one.key for one in matches.passed] == ["closed"]
    ((near, compared),) = matches.near
    assert near.key == "opened"
    assert [one.words() for one in compared if not one.passed] == [
        'action is "closed", wanted one of "opened", "reopened"'
    ]


def test_a_failed_test_at_the_leaf_is_a_near_miss() -> None:
    index = index_of(listener("w", exactly(repository="a/b", actor_access="write")))
    ((near, compared),) = index.match("p", event({"repository": "a/b", "actor_access": "read"})).near
    assert near.key == "w"
    assert [one.words() for one in compared if not one.passed] == ['actor_access is "read", wanted exactly "write"']


@pytest.mark.parametrize("wanted", [{"action": "opened"}, {"sender": "ada"}], ids=["action", "leaf"])
def test_near_misses_are_bounded_and_matches_are_not(wanted: dict[str, str]) -> None:
    many = [listener(f"m{number}", exactly(repository="a/b", **wanted)) for number in range(3 * NEAR_MISSES)]
    hits = [listener(f"h{number}", exactly(repository="a/b")) for number in range(3 * NEAR_MISSES)]
    matches = index_of(*many, *hits).match("p", event({"repository": "a/b", "action": "closed", "sender": "eve"}))
    assert len(matches.passed) == len(hits)
    assert len(matches.near) == NEAR_MISSES


def test_lists_that_multiply_to_too_many_paths_still_match_exactly() -> None:
    wide = exactly(
        repository=[f"a/r{number}" for number in range(60)],
        event_type=[f"e{number}" for number in range(60)],
        action=["opened", "closed"],
    )
    names = [f"n{number}" for number in range(1500)]
    index = index_of(
        listener("wide", wide), listener("names", {"events": [{"id": name, "type": "events"} for name in names]})
    )
    hit = {"repository": "a/r59", "event_type": "e59", "action": "closed"}
    assert [one.key for one in index.match("p", event(hit)).passed] == ["wide"]
    assert not index.match("p", event({**hit, "event_type": "e60"})).passed
    assert not index.match("p", event({**hit, "action": "edited"})).passed
    assert [one.key for one in index.match("p", event(name="n1499")).passed] == ["names"]
    assert not index.match("p", event(name="n1500")).passed


def test_listeners_that_nothing_exact_narrows_are_counted() -> None:
    index = index_of(
        listener("narrow", exactly(repository="a/b")),
        listener("any", {}),
        listener("by sender", exactly(sender="ada")),
        listener("by title", {"properties": [{"key": "title", "value": "x", "operator": "icontains"}]}),
    )
    assert index.broad() == 3


def test_posthog_events_and_internal_events_never_meet() -> None:
    index = index_of(listener("internal", {}), listener("posthog", {}, "event"))
    assert [one.key for one in index.match("p", event(source="github")).passed] == ["internal"]
    assert [one.key for one in index.match("p", event(source="posthog")).passed] == ["posthog"]


def test_a_verdict_names_the_first_stage_that_stopped_the_event() -> None:
    wanted = listener("w", exactly(repository="a/b", action="opened"), version=3)
    hit = {"repository": "a/b", "action": "opened"}

    def stage(project: str, occurred: Event) -> tuple[str, str]:
        verdict = explain(wanted, project, occurred)
        return verdict.stage, verdict.reason

    assert stage("q", event(hit)) == ("project", "the event arrived in another project")
    assert stage("p", event(hit, source="posthog"))[0] == "trigger"
    assert stage("p", event(hit, name="$pageview")) == (
        "trigger",
        f'event is "$pageview", wanted exactly "{GITHUB}"',
    )
    assert stage("p", event({**hit, "repository": "x/y"})) == (
        "filters",
        'repository is "x/y", wanted exactly "a/b"',
    )
    assert stage("p", event(hit)) == ("start", "every filter passed")


def test_a_verdict_is_stored_as_plain_json() -> None:
    wanted = listener("w", exactly(action="opened"), version=3)
    assert explain(wanted, "p", event({"action": "closed"})).as_json() == {
        "workflow": "w",
        "version": 3,
        "stage": "filters",
        "passed": False,
        "reason": 'action is "closed", wanted exactly "opened"',
        "compared": [
            {"key": "event", "operator": "exact", "expected": [GITHUB], "actual": GITHUB, "passed": True},
            {"key": "action", "operator": "exact", "expected": "opened", "actual": "closed", "passed": False},
        ],
    }


def test_what_is_worked_out_again_says_that_the_mask_was_not_asked():
    wanted = compile_filter(exactly(repository="a"))
    heard = event({"repository": "a"}, name=GITHUB, source="github")
    plain, masked = (
        explain(Listener("w", wanted, 0, 1, "p", "internal-event", mask=mask), "p", heard)
        for mask in (None, Mask("all", Rule()))
    )
    assert (plain.stage, plain.reason) == ("start", "every filter passed")
    told = "every filter passed; whether its mask would have let it pass is not worked out again"
    assert (masked.stage, masked.reason) == ("start", told)


@pytest.mark.parametrize("count", [3, 100])
def test_however_different_those_are_who_stand_at_one_place_each_is_found_and_removed_alone(count: int) -> None:
    index = Index()
    for n in range(count):
        wanted = exactly(repository="a")
        wanted["properties"].append({"key": "title", "value": f"<{n}>", "operator": "icontains"})
        index.add(listener(f"w{n}", wanted))
    for n in reversed(range(count)):
        occurred = event({"repository": "a", "title": f"<{n}>"}, name=GITHUB, source="github")
        assert [one.key for one in index.match("p", occurred).passed] == [f"w{n}"]
        index.remove(f"w{n}")
        assert index.match("p", occurred).passed == ()
        assert len(index.match("p", occurred).missed) == min(n, NEAR_MISSES)
