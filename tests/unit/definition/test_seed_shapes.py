"""The loops of the format's authors are taken as they stand and given back the same."""

import copy
import json

import pytest

from loops.definition import read_documents, to_yaml
from tests.unit.definition.documents import (
    NOTIFIERS,
    TRIGGERS,
    changed,
    compiled_of,
    exported_from,
    loop,
    parsed,
    warned,
)

SHAPES = [
    pytest.param(loop(trigger, notify, structured=structured), id=f"{trigger}-{notify}{'-structured' * structured}")
    for trigger in TRIGGERS
    for notify in NOTIFIERS
    for structured in (False, True)
]


@pytest.mark.parametrize("document", SHAPES)
def test_a_loop_is_exported_as_it_was_accepted(document):
    workflow = parsed(document)

    assert exported_from(workflow) == document
    assert warned(workflow) == []


@pytest.mark.parametrize("document", SHAPES)
def test_the_yaml_of_a_loop_says_the_same_as_its_json(document):
    from_json = read_documents(json.dumps(document), "loop.json")
    from_yaml = read_documents(to_yaml(document), "loop.yaml")

    assert from_json == from_yaml == [document]
    assert parsed(from_yaml[0]) == parsed(document)


@pytest.mark.parametrize("document", SHAPES)
def test_an_exported_loop_is_accepted_again(document):
    exported = exported_from(parsed(document))

    assert exported_from(parsed(exported)) == document


def test_a_loop_is_read_into_typed_parts():
    workflow = parsed(loop("github", "slack"))

    assert workflow.name == "Triage"
    assert workflow.trigger.config.type == "internal-event"
    assert [action.type for action in workflow.actions] == ["trigger", "function", "function", "exit"]
    assert workflow.next_action("trigger") == "create_task"
    assert workflow.next_action("notify") == "exit"
    assert workflow.next_action("exit") is None
    assert workflow.branch("trigger", 0) is None
    assert workflow.action("exit").config.reason == "Task finished"
    assert workflow.initial_variables() == {"task_final_message": ""}
    with pytest.raises(KeyError):
        workflow.action("nobody")


def test_what_is_left_out_has_the_documented_defaults():
    document = loop()
    for key in ("description", "status", "origin_product", "exit_condition"):
        del document[key]

    workflow = parsed(document)

    assert workflow.status == "draft"
    assert workflow.origin_product is None
    assert workflow.exit_condition == "exit_only_at_end"
    assert workflow.trigger_masking is None
    assert workflow.action("create_task").on_error is None
    assert exported_from(workflow) == document


def test_parsing_changes_neither_the_document_nor_what_was_exported():
    document = loop()
    before = copy.deepcopy(document)
    workflow = parsed(document)

    exported = exported_from(workflow)
    exported["actions"][0]["config"]["type"] = "schedule"
    document["actions"].clear()

    assert exported_from(workflow) == before


@pytest.mark.parametrize("given", [7, "7"])
def test_an_id_may_be_a_number_or_its_decimal_text_and_keeps_its_form(given):
    document = changed(loop(), "actions.2.config.inputs.slack_workspace.value", given)

    workflow = parsed(document)

    assert compiled_of(document).inputs("notify")["slack_workspace"] == 7
    assert exported_from(workflow)["actions"][2]["config"]["inputs"]["slack_workspace"]["value"] is given


@pytest.mark.parametrize("given", [8, "8"])
def test_the_sender_of_an_email_may_be_a_number_or_its_decimal_text(given):
    path = "actions.2.config.inputs.email.value.from.integrationId"
    document = changed(loop("github", "email"), path, given)

    workflow = parsed(document)

    assert compiled_of(document).inputs("notify")["email"]["from"]["integrationId"] == 8
    assert exported_from(workflow) == document


SERVER_KEYS = {
    "id": "0198c9a2-0000-7000-8000-000000000000",
    "team_id": 2,
    "version": 3,
    "created_at": "2026-07-06T09:00:00Z",
    "created_by": {"id": 1},
    "updated_at": "2026-07-06T09:00:00Z",
    "trigger": {"type": "schedule"},
    "billable_action_types": ["function"],
    "draft": None,
    "draft_updated_at": None,
    "encrypted_inputs": {},
    "draft_encrypted_inputs": {},
    "action_redirects": {},
    "user_access_level": "editor",
    "email_sending_paused_at": None,
    "email_sending_warned_at": None,
}


def test_keys_that_belong_to_the_server_are_taken_and_dropped():
    workflow = parsed({**SERVER_KEYS, **loop()})

    assert exported_from(workflow) == loop()
    assert warned(workflow) == []


@pytest.mark.parametrize(("key", "value"), [("schedules", [{"rrule": "FREQ=DAILY"}]), ("abort_action", "exit")])
def test_a_server_key_that_people_may_have_meant_is_dropped_with_a_warning(key, value):
    workflow = parsed({**loop(), key: value})

    assert [warning.path for warning in warned(workflow)] == [key]
    assert exported_from(workflow) == loop()


def test_bytecode_is_dropped_wherever_it_stands_and_told():
    document = loop()
    clean = {**copy.deepcopy(document), "trigger_masking": {"hash": "{event.properties.number}", "ttl": 60}}
    document["trigger_masking"] = {**clean["trigger_masking"], "bytecode": ["_H", 1]}
    document["actions"][0]["config"]["filters"]["bytecode"] = ["_H", 1]
    document["actions"][1]["config"]["inputs"]["prompt"]["bytecode"] = ["_H", 1]

    workflow = parsed(document)

    assert exported_from(workflow) == clean
    assert sorted(warning.path for warning in warned(workflow)) == [
        "actions[0].config.filters.bytecode",
        "actions[1].config.inputs.prompt.bytecode",
        "trigger_masking.bytecode",
    ]


def test_a_key_called_bytecode_inside_a_value_is_the_authors():
    blocks = [{"type": "section", "text": {"bytecode": "x"}}]
    document = loop()
    document["actions"][2]["config"]["inputs"]["blocks"] = {"value": blocks}

    workflow = parsed(document)

    assert exported_from(workflow) == document
    assert warned(workflow) == []


@pytest.mark.parametrize(
    ("form", "mappings"),
    [
        (None, []),
        ("answer", [("answer", None, False)]),
        ({"key": "answer", "result_path": "final_message"}, [("answer", "final_message", False)]),
        ({"key": "answer", "spread": True, "label": "All"}, [("answer", None, True)]),
        (["answer", {"key": "urls", "result_path": "pr_urls"}], [("answer", None, False), ("urls", "pr_urls", False)]),
        ([], []),
    ],
)
def test_output_variable_has_four_forms_and_keeps_the_one_given(form, mappings):
    document = changed(loop("github", "nobody"), "actions.1.output_variable", form)

    workflow = parsed(document)

    outputs = workflow.action("create_task").output_variable
    assert [(output.key, output.result_path, output.spread) for output in outputs] == mappings
    assert exported_from(workflow) == document


def test_an_output_for_a_variable_that_is_not_declared_is_a_warning():
    document = changed(loop("github", "nobody"), "actions.1.output_variable", "task_final_mesage")

    (warning,) = warned(parsed(document))

    assert warning.path == "actions[1].output_variable"
    assert "task_final_mesage" in warning.message
    assert warning.hint == 'did you mean "task_final_message"?'


@pytest.mark.parametrize(
    "more",
    [
        {"exit_condition": "exit_on_conversion"},
        {"exit_condition": "exit_on_conversion", "conversion": None},
        {"exit_condition": "exit_on_conversion", "conversion": {"filters": [], "events": [], "window_minutes": None}},
        {"exit_condition": "exit_on_trigger_not_matched"},
        {"email_sending_rate_limit": None},
        {"trigger_masking": None},
    ],
)
def test_settings_that_can_change_nothing_are_accepted(more):
    document = {**loop("schedule"), **more}

    assert exported_from(parsed(document)) == document


@pytest.mark.parametrize("filters", [None, {}, {"properties": []}])
def test_an_action_without_conditions_may_say_so(filters):
    document = changed(loop(), "actions.1.filters", filters)

    assert exported_from(parsed(document)) == document
