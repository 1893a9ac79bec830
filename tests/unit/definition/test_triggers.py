"""What a loop may listen to, and what it must say of it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from loops.definition import compile_workflow, export_workflow, listening_filter, parse_workflow
from loops.errors import DefinitionError
from loops.event import Event
from loops.filters import ProjectFilters
from tests.unit.definition.documents import changed, compiled_of, faults_of, loop, only, parsed, warned, without

PROPERTIES = "actions.0.config.filters.properties"


def event(name: str, source: str, **properties: Any) -> Event:
    return Event("e1", name, source, "ada", datetime(2026, 7, 6, tzinfo=UTC), properties)


@pytest.mark.parametrize(
    ("trigger", "sources"),
    [
        ("github", {"github", "slack"}),
        ("slack", {"github", "slack"}),
        ("event", {"posthog"}),
        ("schedule", {"schedule"}),
        ("manual", {"manual"}),
        ("webhook", {"webhook"}),
    ],
)
def test_a_trigger_says_where_its_events_come_from(trigger, sources):
    assert compiled_of(loop(trigger)).sources == sources


@pytest.mark.parametrize("trigger", ["schedule", "manual", "webhook"])
def test_nothing_is_matched_where_an_event_is_made_for_one_workflow(trigger):
    assert compiled_of(loop(trigger)).filter is None


def test_the_filters_of_a_trigger_are_compiled():
    compiled = compiled_of(loop("github"))
    facts = {"repository": "acme/widgets", "event_type": "issues", "actor_access": "write"}

    assert compiled.filter.matches(event("$github_event_received", "github", **facts))
    assert not compiled.filter.matches(event("$github_event_received", "github", **facts | {"actor_access": "read"}))
    assert not compiled.filter.matches(event("$slack_message_received", "slack", **facts))


def test_a_repository_is_compared_without_case():
    document = changed(loop("github"), f"{PROPERTIES}.0", only("repository", "Acme/Widgets"))
    compiled = compiled_of(document)
    facts = {"repository": "acme/widgets", "event_type": "issues", "actor_access": "write"}

    assert compiled.filter.matches(event("$github_event_received", "github", **facts))


@pytest.mark.parametrize("value", [["C0ALERTS|#alerts"], "C0ALERTS|#alerts", ["C0OTHER", "C0ALERTS|#alerts"]])
def test_a_channel_that_a_picker_stored_is_compared_by_its_id_and_exported_as_given(value):
    document = changed(loop("slack"), f"{PROPERTIES}.0.value", value)
    compiled = compiled_of(document)

    assert compiled.filter.matches(event("$slack_message_received", "slack", channel="C0ALERTS"))
    assert not compiled.filter.matches(event("$slack_message_received", "slack", channel="#alerts"))
    assert export_workflow(compiled.workflow) == document


def test_the_filters_of_one_event_know_channels_by_their_ids_too():
    document = changed(loop("slack"), PROPERTIES, [])
    document["actions"][0]["config"]["filters"]["events"][0]["properties"] = [only("channel", "C0ALERTS|#alerts")]
    compiled = compiled_of(document)

    assert compiled.filter.matches(event("$slack_message_received", "slack", channel="C0ALERTS"))


@pytest.mark.parametrize(("operator", "value"), [("regex", "^(C1|C2)$"), ("icontains", "C1|C2")])
def test_a_channel_that_is_compared_as_text_is_not_cut(operator, value):
    document = loop("slack")
    further = {"key": "channel", "operator": operator, "value": value, "type": "event"}
    document["actions"][0]["config"]["filters"]["properties"].append(further)

    compared = compiled_of(document).filter.explain(event("$slack_message_received", "slack", channel="C0ALERTS"))

    assert value in [one.expected for one in compared]


def test_groups_of_and_name_what_a_loop_listens_to_and_groups_of_or_do_not():
    document = loop("slack")
    filters = document["actions"][0]["config"]["filters"]
    entries = filters["properties"]
    entries[0]["value"] = ["C0ALERTS|#alerts"]

    for grouped in ({"type": "AND", "values": entries}, [{"type": "AND", "values": entries}]):
        filters["properties"] = grouped
        heard = compiled_of(document).filter
        assert heard.matches(event("$slack_message_received", "slack", channel="C0ALERTS"))
        assert export_workflow(parsed(document)) == document

    filters["properties"] = [{"type": "OR", "values": entries}]
    assert "no exact filter on channel" in [fault.message[:26] for fault in faults_of(document)]


def test_test_accounts_that_the_project_does_not_know_are_a_warning_and_known_ones_are_filtered():
    document = loop("event")
    document["actions"][0]["config"]["filters"]["filter_test_accounts"] = True
    (warning,) = warned(parse_workflow(document, ProjectFilters()))
    assert warning.path == "actions[0].config.filters.filter_test_accounts"
    assert "holds nothing back" in warning.message
    assert warned(parsed(document)) == [], "a file that is checked by itself belongs to no project"

    project = ProjectFilters(test_accounts=[{"key": "$host", "operator": "is_not", "value": "localhost"}])
    workflow = parse_workflow(document, project)
    assert warned(workflow) == []
    compiled = compile_workflow(workflow, project).filter
    listening = listening_filter(document["actions"][0]["config"], project)
    for heard in (compiled, listening):
        assert heard is not None
        assert heard.matches(event("signed_up", "posthog"))
        assert not heard.matches(event("signed_up", "posthog", **{"$host": "localhost"}))


def test_an_event_trigger_may_listen_to_actions():
    document = loop("event")
    steps = [{"event": "paid", "properties": [{"key": "plan", "value": "pro"}]}]
    document["actions"][0]["config"]["filters"] = {"actions": [{"id": 1, "type": "actions", "steps": steps}]}

    heard = compiled_of(document).filter

    assert heard.matches(event("paid", "posthog", plan="pro"))
    assert not heard.matches(event("paid", "posthog", plan="free"))
    assert export_workflow(parsed(document)) == document


def test_a_fault_of_the_projects_own_filters_is_told_where_it_lies():
    document = loop("event")
    document["actions"][0]["config"]["filters"]["filter_test_accounts"] = True
    project = ProjectFilters(test_accounts=[{"key": "$host", "operator": "regex", "value": "("}])

    with pytest.raises(DefinitionError) as refused:
        parse_workflow(document, project)

    assert refused.value.path == "project.test_accounts[0].value"


@pytest.mark.parametrize(
    ("trigger", "index", "key"), [("github", 0, "repository"), ("github", 1, "event_type"), ("slack", 0, "channel")]
)
@pytest.mark.parametrize(
    "other",
    [
        {"operator": "is_not"},
        {"operator": "icontains"},
        {"operator": "is_set"},
        {"value": []},
        {"value": [""]},
        {"value": [" ", "x"]},
        {"value": None},
        {"value": [5]},
        {"key": "other"},
        {"type": "event_metadata"},
    ],
)
def test_a_loop_must_name_exactly_what_it_listens_to(trigger, index, key, other):
    document = loop(trigger)
    document["actions"][0]["config"]["filters"]["properties"][index].update(other)

    faults = faults_of(document)

    told = next(fault for fault in faults if fault.path == "actions[0].config.filters.properties")
    assert f"no exact filter on {key}" in told.message
    assert f'"key": "{key}"' in told.hint


@pytest.mark.parametrize("operator", ["exakt", "regx", "", 5, ["exact"], {}])
@pytest.mark.parametrize(("index", "key"), [(0, "repository"), (1, "event_type")])
def test_a_filter_whose_operator_is_none_has_that_fault_alone(index, key, operator):
    (fault,) = faults_of(changed(loop("github"), f"{PROPERTIES}.{index}.operator", operator))

    assert fault.path == f"actions[0].config.filters.properties[{index}].operator"
    assert "is not a supported operator" in fault.message


@pytest.mark.parametrize("value", [["|#alerts"], "|"])
def test_a_channel_without_an_id_is_no_channel(value):
    faults = faults_of(changed(loop("slack"), f"{PROPERTIES}.0.value", value))

    assert [fault.path for fault in faults] == ["actions[0].config.filters.properties"]


@pytest.mark.parametrize("operator", ["exact", None])
@pytest.mark.parametrize("value", ["acme/widgets", ["acme/widgets"], ["acme/widgets", "acme/gadgets"]])
def test_a_filter_without_an_operator_is_exact_and_one_value_needs_no_list(operator, value):
    document = loop("github")
    document["actions"][0]["config"]["filters"]["properties"][0].update(value=value, operator=operator)
    if operator is None:
        del document["actions"][0]["config"]["filters"]["properties"][0]["operator"]

    assert export_workflow(parsed(document)) == document


@pytest.mark.parametrize(
    ("where", "value", "path", "words"),
    [
        ("filters", None, "filters", "must be an object, not null"),
        ("filters.events", [], "filters.events", "must name an event"),
        ("filters.events.0.id", "signed_up", "filters.events[0].id", "PostHog events have the trigger type event"),
        ("filters.events.0.id", "$github_event_recieved", "filters.events[0].id", 'mean "$github_event_received"?'),
        (
            "filters.properties.0.key",
            "repositry",
            "filters.properties",
            'did you mean "repository" by the filter',
        ),
        ("filters.properties.0.key", "repository_id", "filters.properties", 'add {"key": "repository"'),
        ("filters.events.0.id", None, "filters.events[0].id", "no event that this trigger type listens to"),
        ("filters.source", "events", "filters.source", 'must be "internal-events"'),
        ("filters.actions", [{"id": 1}], "filters.actions", "not supported"),
        ("filters.data_warehouse", [{"id": 1}], "filters.data_warehouse", "warehouse tables"),
        ("filters.propreties", [], "filters.propreties", "did you mean properties"),
        ("filters.properties.2.operator", "equals", "filters.properties[2].operator", "not a supported operator"),
        (
            "filters.properties.2",
            {"key": "a", "operator": "regex", "value": "("},
            "filters.properties[2].value",
            "missing )",
        ),
        ("filters.properties.2.type", "workflow_variable", "filters.properties[2].type", "no run has begun"),
        ("filters.properties.2.operater", "exact", "filters.properties[2].operater", "did you mean operator"),
        ("filter", {}, "filter", 'did you mean "filters"?'),
    ],
)
def test_a_fault_in_a_trigger_is_told_at_its_place(where, value, path, words):
    faults = faults_of(changed(loop("github"), f"actions.0.config.{where}", value))

    told = next(fault for fault in faults if fault.path == f"actions[0].config.{path}")
    assert words in str(told)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("batch", 'the trigger type "batch" is not supported (supported: internal-event, event,'),
        ("tracking_pixel", "is not supported (use webhook)"),
        ("data-warehouse-table", "is not supported"),
        ("data-warehouse-view", "is not supported"),
        ("github-event", "use internal-event with the event $github_event_received"),
        ("slack", "use internal-event with the event $slack_message_received"),
        ("scheduel", 'unknown trigger type "scheduel" (did you mean "schedule"?)'),
        ("Event", 'unknown trigger type "Event" (did you mean "event"?)'),
    ],
)
def test_a_trigger_type_that_loops_lacks_is_refused_with_what_to_use(name, words):
    (fault,) = faults_of(changed(loop("schedule"), "actions.0.config.type", name))

    assert fault.path == "actions[0].config.type"
    assert words in str(fault)


def test_empty_lists_of_what_posthog_keeps_are_accepted():
    document = loop("event")
    document["actions"][0]["config"]["filters"] |= {"actions": [], "data_warehouse": []}

    assert export_workflow(parsed(document)) == document


def test_an_internal_event_under_the_posthog_type_is_a_warning():
    document = changed(loop("event"), "actions.0.config.filters.events.0.id", "$github_event_received")

    (warning,) = warned(parsed(document))

    assert warning.path == "actions[0].config.filters.events[0].id"
    assert warning.hint == "use the trigger type internal-event"


def test_filters_on_a_schedule_are_kept_and_said_to_do_nothing():
    document = changed(loop("schedule"), "actions.0.config.filters", {"properties": []})

    workflow = parsed(document)

    assert [warning.path for warning in warned(workflow)] == ["actions[0].config.filters"]
    assert export_workflow(workflow) == document


def test_a_start_by_hand_needs_no_inputs():
    document = changed(loop("manual"), "actions.0.config", {"type": "manual"})
    compiled = compiled_of(document)

    rendered = compiled.render("trigger", {"request": {"body": {"user_id": "ada"}}})

    assert rendered == {"event": "$workflow_triggered", "distinct_id": "ada", "method": "POST", "debug": False}


def test_a_webhook_makes_its_event_from_the_request():
    document = loop("webhook")
    document["actions"][0]["config"]["inputs"]["properties"] = {"value": {"body": "{request.body}"}}
    compiled = compiled_of(document)
    body = {"event": "deployed", "distinct_id": "ci"}

    rendered = compiled.render("trigger", {"request": {"body": body}})

    assert rendered == {
        "event": "deployed",
        "distinct_id": "ci",
        "properties": {"body": body},
        "method": "POST",
        "debug": False,
    }


@pytest.mark.parametrize(
    ("where", "value", "path", "words"),
    [
        ("inputs.event", {"value": ""}, "inputs.event", "is required"),
        ("inputs.event", {"value": "{event.event}"}, "inputs.event", "event is not available in this template"),
        ("inputs.method", {"value": "FETCH"}, "inputs.method", 'must be "GET", "POST"'),
        ("inputs.auth_header", {"value": "Bearer x"}, "inputs.auth_header", "a secret is not kept in a workflow"),
        ("template_id", "template-slack", "template_id", 'must be "template-source-webhook"'),
    ],
)
def test_a_webhook_refuses_what_it_cannot_take(where, value, path, words):
    (fault,) = faults_of(changed(loop("webhook"), f"actions.0.config.{where}", value))

    assert fault.path == f"actions[0].config.{path}"
    assert words in str(fault)


def test_a_webhook_must_say_whom_its_event_is_about():
    (fault,) = faults_of(without(loop("webhook"), "actions.0.config.inputs.distinct_id"))

    assert str(fault) == "actions[0].config.inputs.distinct_id: is required"


def test_masking_is_read_and_its_hash_compiled():
    document = {**loop("event"), "trigger_masking": {"hash": "{person.id}", "ttl": 3600, "threshold": None}}
    workflow = parsed(document)

    assert (workflow.trigger_masking.ttl, workflow.trigger_masking.threshold) == (3600, None)
    assert compiled_of(document).mask.render({"person": {"id": "p1"}}) == "p1"
    assert warned(workflow) == []
    assert export_workflow(workflow) == document


def test_without_masking_there_is_no_mask():
    assert compiled_of(loop()).mask is None


@pytest.mark.parametrize("trigger", ["github", "slack", "webhook"])
def test_a_hash_of_a_person_is_a_warning_where_there_is_no_person(trigger):
    document = {**loop(trigger), "trigger_masking": {"hash": "{person.id}", "ttl": 3600}}

    (warning,) = warned(parsed(document))

    assert warning.path == "trigger_masking.hash"
    assert "nothing is masked" in warning.message


@pytest.mark.parametrize("trigger", ["schedule", "manual"])
def test_masking_is_a_warning_where_it_never_applies(trigger):
    document = {**loop(trigger), "trigger_masking": {"hash": "all", "ttl": 3600}}

    (warning,) = (one for one in parsed(document).warnings if one.path == "trigger_masking")

    assert warning.path == "trigger_masking"
    assert "has no effect" in warning.message
