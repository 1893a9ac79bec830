"""The canonical shape of a loop: its form and its JSON say the same, and what no form can show is named."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.definition import parse_workflow
from loops.definition.form import Changed, LoopForm, document_of, form_of, shape_of
from loops.definition.form.values import (
    Debounce,
    Declared,
    EmailNotice,
    GitHubStart,
    ManualStart,
    Mask,
    Output,
    Overlap,
    PostHogStart,
    RateLimit,
    ScheduleStart,
    SlackNotice,
    SlackStart,
    StepNames,
    Task,
    WebhookStart,
)
from tests.unit.definition.documents import NOTIFIERS, TRIGGERS, changed, edge, loop, only, unset, without

# What people write: text that is not blank and is no template by accident.
WORDS = st.text("aZ é<&\"'\\#", min_size=1, max_size=6).filter(lambda text: bool(text.strip()))
LATER = st.one_of(st.just(""), WORDS)
KEYS = st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True)
SOME = st.lists(WORDS, min_size=1, max_size=3).map(tuple)
FURTHER = st.lists(
    st.builds(lambda key, value: only(f"x_{key}", value), KEYS, WORDS), max_size=2, unique_by=lambda one: one["key"]
).map(tuple)
IDS = st.one_of(st.integers(1, 99), st.integers(1, 99).map(str))
INPUTS = st.builds(lambda event, who: {"event": event, "distinct_id": who}, WORDS, WORDS)
MAYBE = st.none() | st.booleans()

STARTS = st.one_of(
    st.builds(ScheduleStart),
    st.builds(GitHubStart, SOME, SOME, st.just(()) | SOME, st.booleans(), FURTHER),
    st.builds(SlackStart, SOME, st.booleans(), st.booleans(), FURTHER),
    st.builds(PostHogStart, st.just(()) | SOME, FURTHER, st.booleans(), MAYBE),
    st.builds(WebhookStart, INPUTS, MAYBE),
    st.builds(ManualStart, st.just({}) | INPUTS),
)
VARIABLES = st.lists(st.tuples(KEYS, WORDS, st.booleans(), LATER), max_size=4, unique_by=lambda one: one[0])
TASKS = st.builds(
    Task,
    prompt=WORDS,
    title=LATER,
    model=WORDS,
    effort=st.sampled_from(["", "high"]),
    repository=st.sampled_from(["", "acme/widgets"]),
    connectors=st.lists(IDS, max_size=2).map(tuple),
    skills=st.just(()) | SOME,
    scopes=st.sampled_from(["read_only", "full"]),
    space=st.sampled_from(["", "12|Growth"]),
    reply_in_thread=MAYBE,
    external_users=MAYBE,
    everyone_in_thread=MAYBE,
    staged=MAYBE,
    most_at_once=st.none() | st.integers(1, 100),
    non_failures=st.sampled_from([(409,), (), (409, "5xx")]),
    outputs=st.just(()),
)
NOTICES = st.one_of(
    st.none(),
    st.builds(SlackNotice, IDS, WORDS, WORDS, LATER, st.sampled_from([{}, {"username": "Loops"}])),
    st.builds(
        EmailNotice,
        connection=IDS,
        to=st.just("ada@example.com"),
        subject=WORDS,
        text=WORDS,
        html=LATER,
        to_name=LATER,
        sender_name=LATER,
        sender_email=st.sampled_from(["", "loops@example.com"]),
        more=st.sampled_from([{}, {"tracking_enabled": False}, {"design": {"rows": [1]}}]),
    ),
)


OVERLAPS = st.builds(Overlap, st.sampled_from(["skip", "restart"]), st.none(), st.none() | WORDS) | st.builds(
    Overlap, st.sampled_from(["queue", "parallel"]), st.integers(1, 9), st.none() | WORDS
)


@st.composite
def forms(draw: Any) -> LoopForm:
    """Any form that can be saved."""
    outputs, declared = [], []
    for key, path, is_output, default in draw(VARIABLES):
        if is_output:
            known = draw(st.sampled_from(["string", ""]))
            outputs.append(Output(key, path, known, default if known else "", default if known else ""))
        else:
            declared.append(Declared(key, "string", default, default))
    ids = draw(st.lists(WORDS, min_size=4, max_size=4, unique=True))
    names = [StepNames(one, draw(LATER), draw(LATER)) for one in ids]
    task, notice = draw(TASKS), draw(NOTICES)
    return LoopForm(
        name=draw(WORDS),
        start=draw(STARTS),
        task=Task(**{**{name: getattr(task, name) for name in Task.__slots__}, "outputs": tuple(outputs)}),
        notice=notice,
        description=draw(LATER),
        mask=draw(st.none() | st.builds(Mask, WORDS, st.none() | st.integers(60, 99), st.none() | st.integers(0, 9))),
        rate_limit=draw(st.none() | st.builds(RateLimit, st.integers(1, 9), st.integers(1, 99), st.none() | WORDS)),
        debounce=draw(st.none() | st.builds(Debounce, st.integers(1, 9), st.integers(9, 99), st.none() | WORDS)),
        overlap=draw(st.none() | OVERLAPS),
        variables=tuple(declared),
        reason=draw(st.none() | LATER),
        start_names=names[0],
        task_names=names[1],
        notice_names=LoopForm(name="", start=ScheduleStart(), task=task).notice_names if notice is None else names[2],
        exit_names=names[3],
    )


@given(forms())
@settings(max_examples=30)
def test_a_form_and_its_json_say_the_same(form: LoopForm):
    document = json.loads(json.dumps(document_of(form)))
    assert form_of(document) == form
    assert form_of(parse_workflow(document).document) == form
    assert shape_of(document) == ("loop", ())


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("notify", NOTIFIERS)
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_loop_of_the_formats_authors_is_one_and_its_form_gives_it_back(trigger: str, notify: str, structured: bool):
    document = loop(trigger, notify, structured=structured)
    form = form_of(document)
    assert isinstance(form, LoopForm)
    assert document_of(form) == document


def test_a_form_shows_what_a_person_would_set():
    form = form_of({**loop("github", "slack", structured=True), "trigger_masking": {"hash": "all", "ttl": 60}})
    assert isinstance(form, LoopForm)
    assert form.start == GitHubStart(("acme/widgets",), ("issues",))
    assert (form.mask, form.task.repository, form.task.skills) == (Mask("all", 60), "acme/widgets", ("triage",))
    assert [(one.key, one.path, one.type) for one in form.task.outputs] == [
        ("task_final_message", "final_message", "string"),
        ("severity", "output.severity", "string"),
        ("duplicates", "output.duplicates", "number"),
    ]
    assert form.notice == SlackNotice(7, "C0RESULTS", "Triage finished: {variables.task_final_message}")


def test_filters_are_known_in_whatever_order_and_form_they_stand():
    properties = [
        {"key": "action", "value": "opened", "type": "event"},
        only("actor_access", "write"),
        only("title", "crash"),
        only("event_type", "issues"),
        {"key": "repository", "value": ["acme/widgets"], "operator": "exact", "type": "event"},
    ]
    form = form_of(changed(loop(), "actions.0.config.filters.properties", properties))
    assert isinstance(form, LoopForm)
    assert form.start == GitHubStart(("acme/widgets",), ("issues",), ("opened",), True, (properties[2],))


@pytest.mark.parametrize(
    ("filters", "people_only", "top_level", "more"),
    [
        ([unset("bot_id"), unset("thread_ts")], True, True, 0),
        ([unset("thread_ts")], False, True, 0),
        ([], False, False, 0),
        ([{"key": "bot_id", "value": "is_set", "operator": "is_set", "type": "event"}], False, False, 1),
    ],
)
def test_who_and_where_of_a_slack_loop_are_read_from_its_filters(
    filters: Any, people_only: bool, top_level: bool, more: int
):
    given = [only("channel", "C0ALERTS"), *filters]
    form = form_of(changed(loop("slack"), "actions.0.config.filters.properties", given))
    assert isinstance(form, LoopForm)
    assert isinstance(form.start, SlackStart)
    assert (form.start.people_only, form.start.top_level, len(form.start.more)) == (people_only, top_level, more)


LOG = {"id": "log", "type": "function", "config": {"template_id": "template-log", "inputs": {"text": {"value": "x"}}}}
TASK = loop()["actions"][1]
WITH_LOG = {
    **loop("github", "nobody"),
    "actions": [*loop("github", "nobody")["actions"], LOG],
    "edges": [edge("trigger", "create_task"), edge("create_task", "log"), edge("log", "exit")],
}
TWO_TASKS = {
    **loop("github", "nobody"),
    "actions": [*loop("github", "nobody")["actions"], {**TASK, "id": "again"}],
    "edges": [edge("trigger", "create_task"), edge("create_task", "again"), edge("again", "exit")],
}
PROMPT, EVENTS = "actions.1.config.inputs.prompt", "actions.0.config.filters.events"
SPREAD = {"key": "all", "spread": True}
MORE_EVENTS = [{"id": "$github_event_received"}, {"id": "$slack_message_received"}]
NARROWED = [{"id": "$github_event_received", "properties": [only("action", "opened")]}]


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        (WITH_LOG, ["actions[3]", "edges[1]", "edges[2]", "edges"]),
        (TWO_TASKS, ["actions[3]", "edges[1]", "edges[2]", "edges"]),
        (without(without(loop("github", "nobody"), "actions.1"), "edges.0"), ["actions"]),
        (changed(loop(), "edges.1.to", "exit"), ["edges[1]", "edges"]),
        (changed(loop(), "actions.1.on_error", "continue"), ["actions[1].on_error"]),
        (changed(loop(), "actions.2.output_variable", "sent"), ["actions[2].output_variable"]),
        (changed(loop(), "actions.1.output_variable", SPREAD), ["actions[1].output_variable[0]"]),
        (changed(loop(), f"{PROMPT}.templating", "liquid"), ["actions[1].config.inputs.prompt.templating"]),
        (changed(loop(), f"{PROMPT}.order", 3), ["actions[1].config.inputs.prompt.order"]),
        (changed(loop(), EVENTS, MORE_EVENTS), ["actions[0].config.filters.events"]),
        (changed(loop(), EVENTS, NARROWED), ["actions[0].config.filters.events[0].properties"]),
        (
            changed(loop("event"), "actions.0.config.filters.actions", [{"id": "1"}]),
            ["actions[0].config.filters.actions"],
        ),
        (
            changed(loop("event"), "actions.0.config.filters.properties", {"type": "OR", "values": []}),
            ["actions[0].config.filters.properties"],
        ),
        ({**loop(), "exit_condition": "exit_on_conversion"}, ["exit_condition"]),
        ({"origin_product": "loops", "actions": [{"id": 1}]}, [""]),
        ({"origin_product": "loops"}, ["actions", "actions", "actions"]),
    ],
)  # fmt: skip
def test_what_is_more_or_other_than_a_loop_is_changed_and_says_by_what(document: Any, paths: list[str]):
    form = form_of(document)
    assert isinstance(form, Changed)
    assert [reason.path for reason in form.reasons] == paths
    assert shape_of(document) == ("changed", form.reasons)


def test_a_workflow_of_no_loops_making_is_neither_a_loop_nor_changed():
    assert shape_of({**WITH_LOG, "origin_product": None}) == ("workflow", ())
    assert shape_of(without(loop(), "origin_product")) == ("workflow", ())
