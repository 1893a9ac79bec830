"""What is legal and probably not meant: each rule on what it is for, and on what comes near it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.definition import parse_workflow, read_documents
from loops.definition.lint import CODES, RULES, Outside, channels_of, lint, linted, reference
from loops.definition.vocabulary import ACTIONS, EVENT_FIELDS, EVENT_TYPES, NEVER_SET, PROPERTIES, VALUES
from loops.errors import DefinitionError, Fault
from loops.event import event_json
from tests.unit.definition.documents import (
    EVENT,
    GITHUB,
    SLACK,
    TRIGGERS,
    changed,
    faults_of,
    loop,
    only,
    parsed,
    unset,
    with_function,
)
from tests.unit.triggers.github.deliveries import fixture
from tests.unit.triggers.github.deliveries import parsed as github_event
from tests.unit.triggers.slack import deliveries as slack_deliveries
from triggers.github.event import EVENT_NAME as GITHUB_NAME
from triggers.slack.event import EVENT_NAME as SLACK_NAME

ROOT = Path(__file__).parents[3]
FILTERS = "actions.0.config.filters"
ACCESS = only("actor_access", "write")
ISSUES = [only("repository", "acme/widgets"), only("event_type", "issues"), ACCESS]
MESSAGES = [only("channel", "C0ALERTS"), unset("bot_id"), unset("thread_ts")]


def asking(*properties: Any, trigger: str = "github", document: Any = None) -> Any:
    """A workflow whose trigger asks for this."""
    config = GITHUB if trigger == "github" else SLACK
    asked = {**config, "filters": {**config["filters"], "properties": list(properties)}}
    return changed(document or with_function("template-log", text="seen"), "actions.0.config", asked)


def found(document: Any, outside: Outside | None = None) -> list[Fault]:
    return list(lint(parsed(document), outside or Outside()))


def codes(document: Any) -> list[str]:
    return [one.code for one in found(document)]


def test_the_reference_is_what_the_table_says():
    page = ROOT / "docs" / "reference" / "lint.md"
    assert page.read_text("utf-8") == reference(), "run: python -m loops.definition.lint > docs/reference/lint.md"


def test_codes_are_told_apart_and_every_rule_says_what_and_why():
    assert len(CODES) == len(RULES)
    assert all(rule.what and rule.why.endswith(".") for rule in RULES)
    assert [rule.code for rule in RULES if rule.level == "error"] == ["event-text-in-prompt"]


@pytest.mark.parametrize("path", sorted((ROOT / "config" / "examples").iterdir()), ids=lambda path: path.name)
def test_nothing_is_found_in_the_examples(path):
    for document in read_documents(path.read_text("utf-8"), path.name):
        assert found(document) == []


@pytest.mark.parametrize("trigger", ["github", "event", "schedule", "manual", "webhook"])
def test_nothing_is_found_in_a_loop_in_the_usual_shape(trigger):
    assert found(loop(trigger, "slack")) == []
    assert found(loop("slack", "nobody")) == []


# GitHub


@pytest.mark.parametrize(
    "more",
    [
        [],
        [only("sender", "ada") | {"operator": "is_not"}],
        [{"type": "OR", "values": [ACCESS, only("action", "opened")]}],
        [only("bot_sender", "x") | {"operator": "is_not_set"}],
    ],
)
def test_a_task_that_anybody_on_github_may_start_is_found(more):
    document = asking(*ISSUES[:2], *more, document=loop("github", "nobody"))
    (finding,) = found(document)
    assert finding.code == "github-without-actor-access"
    assert finding.path == "actions[0].config.filters.properties"
    assert finding.hint == 'add {"key": "actor_access", "value": ["write"], "operator": "exact", "type": "event"}'


@pytest.mark.parametrize(
    "properties",
    [
        ISSUES,
        [*ISSUES[:2], only("sender", "ada", "bo")],
        [*ISSUES[:2], only("author_association", "MEMBER")],
        [*ISSUES[:2], {"key": "properties.actor_access = 'write'", "type": "hogql"}],
        [{"type": "AND", "values": ISSUES}],
        [*ISSUES[:2], {"type": "OR", "values": [ACCESS]}],
        [only("repository", "acme/widgets"), only("event_type", "push")],
    ],
)
def test_a_task_that_only_some_people_may_start_is_not(properties):
    assert codes(asking(*properties, document=loop("github", "nobody"))) == []


def test_a_loop_without_a_task_may_hear_everybody():
    assert codes(asking(*ISSUES[:2])) == []


def test_a_filter_of_the_entry_of_an_event_counts_for_that_entry_alone():
    document = asking(*ISSUES[:2], document=loop("github", "nobody"))
    entries = [{"id": GITHUB_NAME, "type": "events", "properties": [ACCESS]}, {"id": GITHUB_NAME, "type": "events"}]
    (finding,) = found(changed(document, f"{FILTERS}.events", entries))
    assert finding.code == "github-without-actor-access"
    assert codes(changed(document, f"{FILTERS}.events", entries[:1])) == []


@pytest.mark.parametrize("types", [["pull_request"], ["issues", "pull_request"]])
def test_a_loop_on_pull_requests_without_an_action_is_found(types):
    (finding,) = found(asking(only("repository", "acme/widgets"), only("event_type", *types)))
    assert finding.code == "pull-request-without-action"
    assert '"action"' in finding.hint


@pytest.mark.parametrize(
    "properties",
    [
        [only("event_type", "pull_request"), only("action", "opened")],
        [only("event_type", "pull_request"), {"key": "properties.action = 'opened'", "type": "hogql"}],
        [only("event_type", "pull_request_review")],
    ],
)
def test_a_loop_on_pull_requests_with_an_action_is_not(properties):
    assert codes(asking(only("repository", "acme/widgets"), *properties)) == []


# Slack


def test_a_loop_that_apps_and_replies_start_is_found_with_what_to_add():
    first, second = found(asking(MESSAGES[0], trigger="slack"))
    assert (first.code, second.code) == ("slack-without-bot-filter", "slack-without-thread-filter")
    assert '"value": "is_not_set", "operator": "is_not_set"' in first.hint
    assert '"thread_ts"' in second.hint
    assert codes(asking(MESSAGES[0], only("user", "U1") | {"operator": "is_not"}, MESSAGES[2], trigger="slack")) == [
        "slack-without-bot-filter"
    ]


@pytest.mark.parametrize(
    "more",
    [
        MESSAGES[1:],
        [{"key": "bot_id", "operator": "is_set", "type": "event"}, {"key": "thread_ts", "operator": "is_set"}],
        [only("app_id", "A0PAGER"), only("is_thread_reply", "false")],
        [only("user", "U0ADA"), {"key": "properties.thread_ts is null", "type": "hogql"}],
    ],
)
def test_a_loop_that_says_whose_messages_it_hears_is_not(more):
    if any("is null" in one["key"] for one in more):
        more = [more[0], {"key": "isNull(properties.thread_ts)", "type": "hogql"}]
    assert codes(asking(MESSAGES[0], *more, trigger="slack")) == []


def test_a_task_that_is_staged_and_has_nothing_to_write_is_found_and_one_with_a_repository_is_not():
    document = loop("github")
    inputs = document["actions"][1]["config"]["inputs"]
    inputs["staged"] = {"value": True}
    assert codes(document) == []
    del inputs["repository"]
    (finding,) = found(document)
    assert (finding.code, finding.path) == ("staged-without-repository", "actions[1].config.inputs.staged")
    inputs["staged"] = {"value": False}
    assert codes(document) == []


@pytest.mark.parametrize("given", [{}, {"reply_in_slack_thread": {"value": True}}])
@pytest.mark.parametrize("notify", ["slack", "email"])
def test_a_result_that_would_be_told_twice_is_found(given, notify):
    document = loop("slack", notify)
    document["actions"][1]["config"]["inputs"] |= given
    (finding,) = found(document)
    assert finding.code == "two-messages"
    assert finding.path == "actions[1].config.inputs.reply_in_slack_thread"
    assert '"notify"' in finding.message


def test_a_result_that_is_told_once_is_not():
    document = loop("slack", "slack")
    document["actions"][1]["config"]["inputs"]["reply_in_slack_thread"] = {"value": False}
    assert codes(document) == []
    assert codes(loop("slack", "nobody")) == []
    assert codes(loop("github", "slack")) == []


def test_a_channel_that_the_app_is_not_in_is_found_by_what_slack_said():
    document = loop("github", "slack")
    assert channels_of(parsed(document)) == {(7, "C0RESULTS")}
    told = Outside({(7, "C0RESULTS"): ("the app is not in #results (C0RESULTS)", "invite it there: /invite @loops")})
    (finding,) = found(document, told)
    assert (finding.code, finding.path) == ("notify-channel-without-app", "actions[2].config.inputs.channel")
    assert finding.message == "the app is not in #results (C0RESULTS): nothing can be posted there"
    assert finding.hint == "invite it there: /invite @loops"
    other = changed(document, "actions.2.config.inputs.channel.value", "C1|#general")
    assert found(other, told) == []
    assert channels_of(parsed(other)) == {(7, "C1")}
    assert channels_of(parsed(changed(other, "actions.2.config.inputs.channel.value", "{event.properties.x}"))) == set()


# PostHog


@pytest.mark.parametrize("entry", [{"id": "$pageview"}, {"id": "$autocapture"}, {"id": None}])
def test_a_busy_event_that_nothing_holds_back_is_found(entry):
    document = changed(loop("event"), f"{FILTERS}.events", [{**entry, "type": "events"}])
    (finding,) = found(document)
    assert (finding.code, finding.path) == ("busy-event-unmasked", "actions[0].config.filters.events[0]")
    assert '"trigger_masking"' in finding.hint
    assert codes({**document, "trigger_masking": {"hash": "{person.id}", "ttl": 3600}}) == []


def test_every_event_is_busy_and_one_of_our_own_is_not():
    assert codes(changed(loop("event"), FILTERS, {})) == ["busy-event-unmasked"]
    assert codes(loop("event")) == []


def test_a_rate_limit_that_may_drop_the_last_of_a_burst_is_found():
    limit, debounce = {"count": 10, "period": 3600}, {"quiet": 60, "longest": 600}
    document = {**loop("event"), "trigger_rate_limit": limit, "trigger_debounce": debounce}
    (finding,) = found(document)
    assert (finding.code, finding.path) == ("rate-limit-before-debounce", "trigger_rate_limit")
    assert codes({**loop("event"), "trigger_rate_limit": limit}) == []
    assert codes({**loop("event"), "trigger_debounce": debounce}) == []


# Masks and prompts, found where the workflow is read


@pytest.mark.parametrize(("trigger", "number"), [("github", 1), ("slack", 1), ("webhook", 1), ("event", 0)])
def test_a_mask_by_a_person_that_no_event_has_is_found(trigger, number):
    document = {**loop(trigger, "nobody"), "trigger_masking": {"hash": "{person.id}", "ttl": 3600}}
    told = [one for one in parsed(document).warnings if one.code == "mask-without-person"]
    assert len(told) == number
    assert all("{event.properties.repository}" in one.hint for one in told)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Read {event.properties.title}", "write instead: read the title property of the triggering event"),
        ("Greet {person.name}", "say in words what to read of the person in the triggering event"),
        ("Use {steps.log.text}", "let the step's output_variable store it, and write {variables.<key>}"),
        ("Of {groups.company}", "say in words what to read of the triggering event"),
    ],
)
@pytest.mark.parametrize("name", ["prompt", "title"])
def test_a_prompt_that_templates_event_text_is_refused_and_says_what_to_write_instead(name, text, hint):
    inputs = {"prompt": "Do it.", name: text}
    told = [one for one in faults_of(with_function("template-posthog-create-task", **inputs)) if one.code]
    assert [(one.code, one.hint, one.path.endswith(name)) for one in told] == [("event-text-in-prompt", hint, True)]


def test_a_prompt_of_variables_alone_is_not_refused():
    document = loop("github", "nobody")
    assert (
        codes(changed(document, "actions.1.config.inputs.prompt.value", "Go on from {variables.task_final_message}"))
        == []
    )


# Filters that never match


@pytest.mark.parametrize(
    ("trigger", "asked", "message", "hint"),
    [
        ("github", only("actoraccess", "write"), "never matches", 'did you mean "actor_access"?'),
        ("github", unset("bot_sendr"), "holds nothing back", 'did you mean "bot_sender"?'),
        ("github", only("labels", "bug"), '"labels" is no property of $github_event_received', "it has integration_id"),
        ("github", only("github_event.label.name", "bug"), "never matches", "properties.github_event.label.name = "),
        ("slack", only("chanel", "C1"), "never matches", 'did you mean "channel"?'),
        ("slack", only("sender", "ada"), "is no property of $slack_message_received", ""),
        ("github", {"key": "properties.actr_access = 'write'", "type": "hogql"}, "reads properties.actr_access",
         'did you mean "actor_access"?'),
    ],
)  # fmt: skip
def test_a_property_that_no_such_event_has_is_found_with_the_nearest(trigger, asked, message, hint):
    usual = ISSUES if trigger == "github" else MESSAGES
    (finding,) = found(asking(*usual, asked, trigger=trigger))
    assert (finding.code, finding.path) == ("unknown-property", "actions[0].config.filters.properties[3].key")
    assert message in finding.message
    assert hint in finding.hint


def reading(trigger: str, text: str, *, language: str = "hog", **keys: Any) -> Any:
    """A workflow in the usual shape whose one step writes this text, with further keys of its own."""
    usual = {"github": ISSUES, "slack": MESSAGES}.get(trigger)
    document = {**with_function("template-log", text=text), **keys}
    document = changed(document, "actions.1.config.inputs.text", {"value": text, "templating": language})
    if usual is not None:
        return asking(*usual, trigger=trigger, document=document)
    return changed(document, "actions.0.config", TRIGGERS[trigger])


@pytest.mark.parametrize(
    ("trigger", "text", "language", "message", "hint"),
    [
        ("github", "{event.nme}", "hog", "reads event.nme, and no event has that", "it has uuid, event"),
        ("event", "{event.distinctid}", "hog", "reads event.distinctid", 'did you mean "distinct_id"?'),
        ("slack", "{{ event.timestmp }}", "liquid", "reads event.timestmp", 'did you mean "timestamp"?'),
        ("github", "{event.title}", "hog", "reads event.title", "did you mean event.properties.title?"),
        ("github", "{event.properties.titel}", "hog", "and $github_event_received has no such property",
         'did you mean "title"?'),
        ("github", "{event.properties['titel']}", "hog", "reads event.properties.titel", 'did you mean "title"?'),
        ("slack", "{{ event.properties.usr.size }}", "liquid", "reads event.properties.usr.size", 'mean "user"?'),
    ],
)  # fmt: skip
def test_a_template_that_reads_what_no_such_event_has_is_found(trigger, text, language, message, hint):
    (finding,) = found(reading(trigger, text, language=language))
    assert (finding.code, finding.path) == ("unknown-property", "actions[1].config.inputs.text")
    assert message in finding.message
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("trigger_masking", {"hash": "{event.properties.nmber}", "ttl": 60}, "trigger_masking.hash"),
        (
            "trigger_rate_limit",
            {"count": 2, "period": 60, "key": "{event.properties.nmber}"},
            "trigger_rate_limit.key",
        ),
        ("trigger_debounce", {"quiet": 60, "longest": 60, "key": "{event.properties.nmber}"}, "trigger_debounce.key"),
        ("trigger_overlap", {"policy": "skip", "key": "{event.properties.nmber}"}, "trigger_overlap.key"),
    ],
)
def test_a_hash_or_a_key_that_reads_what_no_such_event_has_is_found(key, value, path):
    (finding,) = found(reading("github", "seen", **{key: value}))
    assert (finding.code, finding.path, finding.hint) == ("unknown-property", path, 'did you mean "number"?')


@pytest.mark.parametrize(
    ("trigger", "text", "language"),
    [
        ("event", "{event.properties.whatever} {event.verified}", "hog"),
        ("webhook", "{event.properties.whatever}", "hog"),
        ("github", "{event.properties.github_event.labl.nme} {event.properties}", "hog"),
        ("slack", "{event.properties.slack_event['x'].y}", "hog"),
        ("github", "{{ event.properties.size }} {{ event.size }}", "liquid"),
        ("github", "{concat(event.properties.title, event.url, event.uuid, person.name)}", "hog"),
    ],
)
def test_what_events_may_have_is_read_freely(trigger, text, language):
    assert "unknown-property" not in codes(reading(trigger, text, language=language))


def test_what_templates_may_read_of_an_event_is_what_an_event_has():
    real = event_json(github_event("issues", fixture("issues__opened")))
    assert {*EVENT_FIELDS, "person", "groups"} == set(real)


def test_every_property_that_an_event_has_may_be_asked_for():
    for trigger, usual, name in (("github", ISSUES[:1], GITHUB_NAME), ("slack", MESSAGES, SLACK_NAME)):
        asked = [
            {"key": key, "operator": "is_set", "type": "event"}
            for key in PROPERTIES[name]
            if key not in {"bot_id", "thread_ts"}
        ]
        event_type = [only("event_type", "workflow_run")] if trigger == "github" else []
        assert codes(asking(*usual, *event_type, *asked, trigger=trigger)) == []
    assert codes(changed(loop("event"), f"{FILTERS}.properties", [only("whatever", "x")])) == []


def test_the_names_of_properties_are_those_of_real_events():
    assert set(github_event("issues", fixture("issues__opened")).properties) == set(PROPERTIES[GITHUB_NAME])
    message = slack_deliveries.parsed(slack_deliveries.fixture("message__plain"))
    assert set(message.properties) == set(PROPERTIES[SLACK_NAME])


@pytest.mark.parametrize("kind", ["person", "group", "element"])
def test_a_filter_on_what_only_posthog_knows_is_found(kind):
    asked = {"key": "href" if kind == "element" else "plan", "value": "x", "operator": "exact", "type": kind}
    asked |= {"group_type_index": 0} if kind == "group" else {}
    (finding,) = found(asking(*ISSUES, asked))
    assert (finding.code, finding.path) == ("filter-without-person", "actions[0].config.filters.properties[3].type")
    assert codes(changed(loop("event"), f"{FILTERS}.properties", [asked])) == []


@pytest.mark.parametrize(
    ("types", "action", "message", "hint"),
    [
        (["issues"], "open", 'issues has no action "open"', 'did you mean "opened"?'),
        (["issues"], "synchronize", 'issues has no action "synchronize"', "it has opened"),
        (["push"], "created", "push has no action", "leave the filter out"),
        (["issue_comment", "pull_request_review"], "opened", 'issue_comment and pull_request_review has no action', ""),
    ],
)  # fmt: skip
def test_an_action_that_the_event_never_has_is_found(types, action, message, hint):
    properties = [only("repository", "a/b"), only("event_type", *types), ACCESS, only("action", action)]
    (finding,) = found(asking(*properties))
    assert (finding.code, finding.path) == ("impossible-value", "actions[0].config.filters.properties[3].value")
    assert message in finding.message
    assert hint in finding.hint


def test_every_action_that_the_event_may_have_is_not():
    for name, actions in ACTIONS.items():
        if actions:
            assert codes(asking(only("repository", "a/b"), only("event_type", name), only("action", *actions))) == []
    unknown = [only("repository", "a/b"), only("event_type", "workflow_run"), only("action", "whatever")]
    assert codes(asking(*unknown)) == []
    mixed = [
        only("repository", "a/b"),
        only("event_type", "issues", "issue_comment"),
        only("action", "created", "opened"),
    ]
    assert codes(asking(*mixed)) == []


@pytest.mark.parametrize(
    ("trigger", "asked", "message"),
    [
        ("github", only("actor_access", "admin"), 'actor_access is never "admin"'),
        ("github", only("repository_visibility", "internal"), "it is private or public"),
        ("github", only("author_association", "member"), 'did you mean "MEMBER"?'),
        ("github", only("own_app", "true"), 'own_app is never "true"'),
        ("github", only("repository", "widgets"), "they are owner/name"),
        ("github", only("event_type", "issue"), 'did you mean "issues"?'),
        ("slack", only("channel", "#alerts"), "loops integrations channels <connection> --search alerts"),
        ("slack", only("channel_type", "private"), 'channel_type is never "private"'),
        ("slack", only("subtype", "message_changed"), "subtype is never"),
    ],
)
def test_a_value_that_a_property_never_has_is_found(trigger, asked, message):
    usual = ISSUES if trigger == "github" else MESSAGES
    kept = [one for one in usual if one["key"] != asked["key"]]
    told = [one for one in found(asking(asked, *kept, trigger=trigger)) if one.code == "impossible-value"]
    assert [message in str(one) for one in told] == [True]


@pytest.mark.parametrize(
    "asked",
    [
        only("actor_access", "write", "read"),
        only("event_type", "a_name_of_tomorrow"),
        only("repository", "Acme/Widgets.js"),
        only("own_app", "false"),
        {**only("title", "anything")},
    ],
)
def test_a_value_that_a_property_may_have_is_not(asked):
    kept = [one for one in ISSUES if one["key"] != asked["key"]]
    assert codes(asking(asked, *kept)) == []


def test_a_property_that_such_deliveries_lack_is_found_and_asking_whether_it_is_there_is_not():
    push = [only("repository", "a/b"), only("event_type", "push")]
    told = found(asking(*push, {"key": "title", "value": "crash", "operator": "icontains", "type": "event"}))
    assert [(one.code, one.message) for one in told] == [
        ("property-never-set", "push has no title: the filter never matches")
    ]
    assert codes(asking(*push, unset("title"), only("branch", "main"))) == []
    both = [only("repository", "a/b"), only("event_type", "push", "issues"), only("title", "x")]
    assert codes(asking(*both)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (only("title", "a", "b"), only("title", "c")),
        (only("title", "a"), unset("title")),
        (unset("title"), {"key": "title", "value": "a", "operator": "icontains", "type": "event"}),
        (only("title", "a", "b"), only("title", "b", "a") | {"operator": "is_not"}),
        ({"key": "number", "operator": "is_set", "type": "event"}, unset("number")),
    ],
)
def test_filters_that_no_event_satisfies_together_are_found(one, other):
    (finding,) = found(asking(*ISSUES, one, {"type": "AND", "values": [other]}))
    assert finding.code == "contradicting-filters"
    assert finding.path == "actions[0].config.filters.properties[4].values[0]"
    assert "contradicts actions[0].config.filters.properties[3]" in finding.message


@pytest.mark.parametrize(
    "asked",
    [
        [only("title", "a", "b"), only("title", "b", "c")],
        [only("number", "5"), {"key": "number", "value": 5.0, "operator": "exact", "type": "event"}],
        [only("title", "a"), only("title", "b") | {"operator": "is_not"}],
        [{"type": "OR", "values": [only("title", "a"), only("title", "b")]}],
        [unset("branch"), {"key": "branch", "value": "x", "operator": "not_icontains", "type": "event"}],
        [only("title", "a"), only("body", "b")],
        [only("repository", "ACME/widgets")],
    ],
)
def test_filters_that_an_event_may_satisfy_together_are_not(asked):
    assert codes(asking(*ISSUES, *asked)) == []


def test_findings_are_told_once_and_among_the_warnings_of_the_workflow():
    document = asking(*ISSUES[:2], only("actoraccess", "write"), document=loop("github", "nobody"))
    twice = changed(document, f"{FILTERS}.events", [{"id": GITHUB_NAME, "type": "events"}] * 2)
    assert codes(twice) == ["github-without-actor-access", "unknown-property"]
    workflow = parsed(twice)
    assert linted(workflow).warnings == (*workflow.warnings, *lint(workflow))
    assert linted(workflow).document == workflow.document


FILTER = st.fixed_dictionaries(
    {"key": st.sampled_from([*PROPERTIES[GITHUB_NAME], "x", "properties.title = 'a'", "event"])},
    optional={
        "value": st.recursive(st.text(max_size=5) | st.integers() | st.booleans() | st.none(), st.lists, max_leaves=3),
        "operator": st.sampled_from(["exact", "is_not", "is_set", "is_not_set", "icontains", "gt", "regex", "odd"]),
        "type": st.sampled_from(["event", "person", "hogql", "cohort", "AND", "OR", "group"]),
        "values": st.lists(st.just(only("title", "a")), max_size=2),
    },
)


@settings(max_examples=60)
@given(st.lists(FILTER, max_size=4), st.sampled_from([GITHUB_NAME, SLACK_NAME, "$pageview", None]))
def test_whatever_was_accepted_is_looked_at_without_an_error(properties, name):
    config = {**EVENT, "filters": {"events": [{"id": name, "type": "events"}], "properties": properties}}
    if name in PROPERTIES:
        config = {**GITHUB, "filters": {**config["filters"], "properties": [*ISSUES, MESSAGES[0], *properties]}}
    try:
        workflow = parse_workflow(changed(with_function("template-log", text="x"), "actions.0.config", config))
    except DefinitionError:
        return
    assert {one.code for one in lint(workflow)} <= CODES


def test_the_tables_speak_of_the_same_things():
    assert set(ACTIONS) == set(NEVER_SET) <= set(EVENT_TYPES)
    for name, values in VALUES.items():
        assert set(values) <= set(PROPERTIES[name])
    assert {one for lacking in NEVER_SET.values() for one in lacking} <= set(PROPERTIES[GITHUB_NAME])
