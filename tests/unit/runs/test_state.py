from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.event import JsonValue
from loops.runs.state import (
    MOST_STEPS,
    Cancelled,
    Ended,
    Execute,
    Failed,
    Finish,
    Outcome,
    Park,
    Parked,
    RunState,
    Succeeded,
    Wait,
    begin,
    judged,
    next_effect,
    transition,
)
from loops.runs.variables import MOST_BYTES, OutputVariable
from tests.unit.runs.graphs import PlainGraph, PlainNode, line

WAIT = Wait("timer", datetime(2026, 11, 30, 12, tzinfo=UTC), {"why": "test"})
TOO_MUCH = "x" * (MOST_BYTES + 1)


def test_a_run_begins_behind_the_trigger_with_the_defaults_of_its_variables():
    graph = PlainGraph({"trigger": "a", "a": None}, variables={"who": "nobody", "count": 1})
    assert begin(graph) == RunState("a", 0, {"who": "nobody", "count": 1})
    assert begin(graph, {"count": 2}) == RunState("a", 0, {"who": "nobody", "count": 2})


def test_a_run_of_a_trigger_that_leads_nowhere_is_completed_at_once():
    assert next_effect(begin(line())) == Finish("completed", "the last step has no way on")


CONTINUES = line("a", "b", nodes={"a": PlainNode(on_error="continue")})
ABORTS = line("a", "b", nodes={"a": PlainNode(on_error="abort")})


@pytest.mark.parametrize(
    ("graph", "came", "position", "effect"),
    [
        (line("a", "b"), Succeeded(1), "b", Execute("b")),
        (line("a"), Succeeded(1), None, Finish("completed", "the last step has no way on")),
        (line("a", "b"), Ended("enough"), "a", Finish("completed", "enough")),
        (line("a", "b"), Cancelled(), "a", Finish("cancelled", "cancelled on request")),
        (line("a", "b"), Failed("step.x", "it broke"), "a", Finish("failed", "a: it broke")),
        (ABORTS, Failed("step.x", "it broke"), "a", Finish("failed", "a: it broke")),
        (CONTINUES, Failed("step.x", "it broke"), "b", Execute("b")),
        (CONTINUES, Cancelled(), "a", Finish("cancelled", "cancelled on request")),
    ],
)
def test_what_a_step_came_to_decides_what_follows(graph, came, position, effect):
    after, following = transition(graph, begin(graph), came)
    assert (after.position, following) == (position, effect)
    assert after.steps == 1


def test_a_parked_run_stays_where_it_is_and_has_not_taken_the_step():
    graph = line("a", "b")
    before = begin(graph)
    after, effect = transition(graph, before, Parked(WAIT))
    assert after == before
    assert effect == Park("a", WAIT)
    woken, effect = transition(graph, after, Succeeded())
    assert (woken.position, woken.steps, effect) == ("b", 1, Execute("b"))


def test_a_run_that_is_over_has_no_step_that_could_come_to_anything():
    with pytest.raises(ValueError, match="without a position"):
        transition(line("a"), RunState(None), Succeeded())


def test_a_result_sets_the_variables_that_the_action_names():
    node = PlainNode(outputs=(OutputVariable("issue", "number"), OutputVariable("all")))
    graph = line("a", nodes={"a": node})
    after, _ = transition(graph, begin(graph), Succeeded({"number": 7}))
    assert after.variables == {"issue": 7, "all": {"number": 7}}


def test_a_result_that_would_fill_the_variables_fails_the_step_and_sets_nothing():
    node = PlainNode(outputs=(OutputVariable("small", "small"), OutputVariable("big", "big")))
    graph = PlainGraph({"trigger": "a", "a": "b"}, {"a": node}, {"kept": "yes"})
    after, effect = transition(graph, begin(graph), Succeeded({"small": 1, "big": TOO_MUCH}))
    assert after.variables == {"kept": "yes"}
    assert isinstance(effect, Finish)
    assert effect.status == "failed"
    assert effect.reason.startswith("a: setting big, small would take the variables to ")


def test_a_step_whose_variables_do_not_fit_counts_as_failed_and_keeps_what_it_has():
    graph = line("a", nodes={"a": PlainNode(outputs=(OutputVariable("v"),))})
    state = begin(graph)
    assert judged(graph, state, Succeeded("fits")) == Succeeded("fits")
    failed = judged(graph, state, Succeeded(TOO_MUCH))
    assert isinstance(failed, Failed)
    assert (failed.code, failed.partial) == ("variables.too_large", TOO_MUCH)
    assert "result_path" in failed.hint
    assert transition(graph, state, Succeeded(TOO_MUCH)) == transition(graph, state, failed)


def test_a_result_that_would_fill_the_variables_does_not_stop_a_step_that_continues_on_error():
    node = PlainNode("continue", (OutputVariable("big"),))
    graph = PlainGraph({"trigger": "a", "a": "b"}, {"a": node}, {"kept": "yes"})
    after, effect = transition(graph, begin(graph), Succeeded(TOO_MUCH))
    assert (after.variables, effect) == ({"kept": "yes"}, Execute("b"))


def test_a_run_that_goes_in_a_circle_ends_at_the_limit_of_steps():
    graph = PlainGraph({"trigger": "a", "a": "b", "b": "a"})
    state, taken = begin(graph), 0
    effect = next_effect(state)
    while isinstance(effect, Execute):
        state, effect = transition(graph, state, Succeeded())
        taken += 1
    assert taken == MOST_STEPS
    assert effect == Finish("failed", f"limit of {MOST_STEPS} steps a run reached before 'a'")


def test_a_run_whose_work_was_skipped_says_so_at_its_end():
    graph = line("a", "b")
    state, effect = transition(graph, begin(graph), Succeeded(skipped="the quota is full"))
    assert effect == Execute("b")
    assert transition(graph, state, Succeeded())[1] == Finish("completed", "skipped: the quota is full")
    assert transition(graph, state, Ended("told"))[1] == Finish("completed", "skipped: the quota is full")
    assert transition(graph, state, Failed("x", "broke"))[1] == Finish("failed", "b: broke")


def test_a_state_is_the_same_after_it_was_stored():
    state = RunState("a", 3, {"x": [1, None, {"y": "z"}]}, skipped="the quota is full")
    assert RunState.from_json(state.as_json()) == state
    assert RunState.from_json({}) == RunState(None)


# Random graphs without circles (what a definition may hold) and random outcomes.

ACTIONS = [f"n{number}" for number in range(12)]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6) | st.just("y" * 3000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)
outputs = st.lists(
    st.builds(
        OutputVariable, st.sampled_from(["v", "w"]), st.sampled_from([None, "a", "a.b", "c[0]"]), spread=st.booleans()
    ),
    max_size=2,
)
nodes = st.builds(PlainNode, st.sampled_from([None, "abort", "continue"]), outputs.map(tuple))


@st.composite
def graphs(draw: st.DrawFn) -> PlainGraph:
    ways: dict[str, str | None] = {}
    for number, name in enumerate(["trigger", *ACTIONS]):
        ways[name] = draw(st.none() | st.sampled_from(ACTIONS[number:])) if number < len(ACTIONS) else None
    return PlainGraph(ways, {name: draw(nodes) for name in ACTIONS})


parks = st.just(Parked(WAIT))
outcomes = st.lists(
    st.one_of(
        st.builds(Succeeded, json_values),
        st.builds(Succeeded, json_values),
        st.builds(Failed, st.just("step.x"), st.just("broke")),
        parks,
        st.builds(Ended, st.just("enough")),
        st.just(Cancelled()),
    ),
    max_size=30,
)


def drive(graph: PlainGraph, came: list[Outcome]) -> tuple[list[tuple[str, Outcome]], RunState, Finish]:
    """Drive a run to its end the way the interpreter does; outcomes that run out are successes."""
    rest = list(came)
    taken: list[tuple[str, Outcome]] = []
    state = begin(graph)
    effect = next_effect(state)
    while not isinstance(effect, Finish):
        before = state
        outcome = rest.pop(0) if rest else Succeeded()
        taken.append((effect.action, outcome))
        state, effect = transition(graph, RunState.from_json(state.as_json()), outcome)
        if isinstance(outcome, Parked):
            assert isinstance(effect, Park)
            assert (effect.wait, state) == (WAIT, before)
        if isinstance(effect, Execute):
            # What recovery rests on: a state that was stored says by itself what follows.
            assert next_effect(RunState.from_json(state.as_json())) == effect
    return taken, state, effect


@given(graphs(), outcomes)
def test_every_run_ends_and_takes_no_action_twice(graph, came):
    taken, state, _ = drive(graph, came)
    acted = [action for action, outcome in taken if not isinstance(outcome, Parked)]
    assert len(acted) == len(set(acted)) == state.steps <= len(ACTIONS)


@given(graphs(), outcomes)
def test_a_run_takes_only_actions_that_follow_one_another(graph, came):
    taken, _, _ = drive(graph, came)
    place = "trigger"
    for action, outcome in taken:
        assert action == graph.after(place)
        if not isinstance(outcome, Parked):
            place = action


@given(graphs(), outcomes)
def test_the_end_of_a_run_is_told_by_the_last_thing_that_happened(graph, came):
    taken, _, finish = drive(graph, came)
    if not taken:
        assert finish.status == "completed"
        return
    action, last = taken[-1]
    if isinstance(last, Cancelled):
        assert finish.status == "cancelled"
    elif isinstance(last, Ended):
        assert finish == Finish("completed", "enough")
    elif isinstance(last, Failed) and graph.node(action).on_error != "continue":
        assert finish == Finish("failed", f"{action}: broke")
    elif finish.status == "completed":
        assert graph.after(action) is None
    else:
        assert "over the limit" in finish.reason


@given(graphs(), outcomes)
def test_nothing_follows_a_failure_that_is_not_meant_to_go_on(graph, came):
    taken, _, _ = drive(graph, came)
    for action, outcome in taken[:-1]:
        assert not isinstance(outcome, Ended | Cancelled)
        assert not isinstance(outcome, Failed) or graph.node(action).on_error == "continue"


@given(st.dictionaries(st.sampled_from("abc"), json_values, max_size=3))
def test_transition_leaves_the_state_it_was_given_alone(result):
    graph = line("a", "b", nodes={"a": PlainNode(outputs=(OutputVariable("v", spread=True),))})
    variables: dict[str, JsonValue] = {"kept": 1}
    state = RunState("a", 0, variables)
    transition(graph, state, Succeeded(result))
    assert (state, variables) == (RunState("a", 0, {"kept": 1}), {"kept": 1})


def test_a_step_knows_which_one_acted_before_it():
    graph = line("one", "two")
    state = begin(graph)
    assert state.previous is None
    state, _ = transition(graph, state, Succeeded({"a": 1}))
    assert (state.position, state.previous) == ("two", "one")
    assert RunState.from_json(state.as_json()) == state
