"""What is wrong with a document is told at its place, in words that help, and all of it at once."""

import copy
from typing import Any

import pytest

from tests.unit.definition.documents import changed, edge, faults_of, loop, parsed, with_action, without

ONE_FAULT: list[tuple[str, Any, str, str]] = [
    # the workflow
    ("name", 5, "name", "must be text, not the number 5"),
    ("name", None, "name", "must be text, not null"),
    ("name", " ", "name", "must not be blank"),
    ("name", "n" * 401, "name", "has 401 characters (at most 400)"),
    ("status", "paused", "status", 'must be "draft", "active" or "archived", not the text "paused"'),
    ("origin_product", "loop", "origin_product", 'must be "loops" or "broadcasts"'),
    ("exit_condition", "never", "exit_condition", '"exit_only_at_end"'),
    ("conversion", {"filters": [{"key": "a"}]}, "conversion", "not supported yet"),
    ("email_sending_rate_limit", {"count": 1, "period": "hour"}, "email_sending_rate_limit", "not supported yet"),
    ("nmae", "x", "nmae", 'unknown key "nmae" (did you mean "name"?)'),
    ("step_limit", 3, "step_limit", "known here: name, description"),
    ("actions", {}, "actions", "must be a list, not an object"),
    ("edges", {}, "edges", "must be a list, not an object"),
    # variables
    ("variables.0", 5, "variables[0]", "must be an object, not the number 5"),
    ("variables.0.key", "", "variables[0].key", "must not be blank"),
    ("variables.0.type", "date", "variables[0].type", 'must be "string", "number" or "boolean"'),
    ("variables.0.default", 5, "variables[0].default", 'must be text, not the number 5 (write "5")'),
    ("variables.0.default", True, "variables[0].default", 'must be text, not true (write "true")'),
    ("variables.0.default", None, "variables[0].default", "must be text, not null"),
    ("variables.0.defualt", "", "variables[0].defualt", 'did you mean "default"?'),
    ("variables.0.default", "x" * 5120, "variables", "5120 is the limit"),
    # masking
    ("trigger_masking", {"ttl": 60}, "trigger_masking.hash", "is required"),
    (
        "trigger_masking",
        {"hash": "a", "ttl": 59},
        "trigger_masking.ttl",
        "59 is out of range (allowed: 60 to 94608000)",
    ),
    ("trigger_masking", {"hash": "a", "ttl": 94608001}, "trigger_masking.ttl", "allowed: 60 to 94608000"),
    ("trigger_masking", {"hash": "{loer(event.event)}"}, "trigger_masking.hash", "did you mean lower()?"),
    ("trigger_masking", {"hash": "a", "ttl": True}, "trigger_masking.ttl", "must be a whole number, not true"),
    ("trigger_masking", {"hash": "a", "ttl": "60"}, "trigger_masking.ttl", 'must be a whole number, not the text "60"'),
    ("trigger_masking", {"hash": "a", "threshold": -1}, "trigger_masking.threshold", "allowed: 0 to 1000000"),
    ("trigger_masking", {"hash": "{event.", "ttl": 60}, "trigger_masking.hash", "nothing closes"),
    ("trigger_masking", {"hash": "{variables.a}"}, "trigger_masking.hash", "variables is not available"),
    # brakes
    ("trigger_rate_limit", {"period": 60}, "trigger_rate_limit.count", "is required"),
    ("trigger_rate_limit", {"count": 0, "period": 60}, "trigger_rate_limit.count", "allowed: 1 to 1000"),
    ("trigger_rate_limit", {"count": 1, "period": "1h"}, "trigger_rate_limit.period", "must be a whole number"),
    ("trigger_rate_limit", {"count": 1, "period": 1, "by": "x"}, "trigger_rate_limit.by", 'unknown key "by"'),
    ("trigger_debounce", {"quiet": 60}, "trigger_debounce.longest", "is required"),
    ("trigger_debounce", {"quiet": 60, "longest": 5}, "trigger_debounce.longest", "5 is shorter than quiet, 60"),
    ("trigger_debounce", {"quiet": 1, "longest": 1, "key": "{event."}, "trigger_debounce.key", "nothing closes"),
    ("trigger_overlap", {}, "trigger_overlap.policy", "is required"),
    ("trigger_overlap", "skip", "trigger_overlap", 'must be an object, not the text "skip"'),
    ("trigger_overlap", {"policy": "drop"}, "trigger_overlap.policy", 'unknown policy "drop" (use skip)'),
    ("trigger_overlap", {"policy": "queue"}, "trigger_overlap.maximum", "is required"),
    ("trigger_overlap", {"policy": "parallel", "maximum": 0}, "trigger_overlap.maximum", "allowed: 1 to 1000"),
    ("trigger_overlap", {"policy": "skip", "maximum": 2}, "trigger_overlap.maximum", "only queue and parallel have"),
    (
        "trigger_overlap",
        {"policy": "skip", "key": "{variables.a}"},
        "trigger_overlap.key",
        "variables is not available",
    ),
    # actions
    ("actions.1", "create_task", "actions[1]", "must be an object"),
    ("actions.1.name", "n" * 401, "actions[1].name", "has 401 characters (at most 400)"),
    ("actions.1.on_error", "retry", "actions[1].on_error", 'must be "continue" or "abort", not the text "retry"'),
    ("actions.1.on_eror", "abort", "actions[1].on_eror", 'did you mean "on_error"?'),
    ("actions.1.filters", {"properties": [{"key": "a"}]}, "actions[1].filters", "not supported yet"),
    ("actions.1.filters", [], "actions[1].filters", "must be an object, not a list"),
    ("actions.1.output_variable", {"result_path": "x"}, "actions[1].output_variable.key", "is required"),
    ("actions.1.output_variable", [{"key": ""}], "actions[1].output_variable[0].key", "must not be blank"),
    ("actions.1.output_variable", "", "actions[1].output_variable", "must not be blank"),
    ("actions.1.output_variable", 5, "actions[1].output_variable", "must be an object, not the number 5"),
    ("actions.1.output_variable", {"key": "a", "path": "x"}, "actions[1].output_variable.path", 'unknown key "path"'),
    ("actions.1.config", [], "actions[1].config", "must be an object, not a list"),
    ("actions.1.config.template", "x", "actions[1].config.template", 'did you mean "template_id"?'),
    (
        "actions.1.config.template_id",
        "template-slak",
        "actions[1].config.template_id",
        'did you mean "template-slack"?',
    ),
    (
        "actions.1.config.template_id",
        "template-webhook",
        "actions[1].config.template_id",
        "(supported: template-posthog-create-task, template-slack, template-log)",
    ),
    (
        "actions.1.config.template_id",
        "template-discord",
        "actions[1].config.template_id",
        "(supported: template-posthog-create-task, template-slack, template-log)",
    ),
    ("actions.1.config.template_id", "template-email", "actions[1].config.template_id", "type function_email"),
    ("actions.1.config.template_id", "template-source-webhook", "actions[1].config.template_id", "a trigger of type"),
    ("actions.1.config.mappings", [{}], "actions[1].config.mappings", "are not supported"),
    ("actions.1.config.inputs", [], "actions[1].config.inputs", "must be an object, not a list"),
    ("actions.1.config.inputs.prompt", "Do it", "actions[1].config.inputs.prompt", 'not the text "Do it"'),
    ("actions.1.config.inputs.prompt", {}, "actions[1].config.inputs.prompt.value", "is required"),
    ("actions.1.config.inputs.prmpt", {"value": 1}, "actions[1].config.inputs.prmpt", 'did you mean "prompt"?'),
    ("actions.3.type", "exitt", "actions[3].type", 'unknown action type "exitt" (did you mean "exit"?)'),
    ("actions.3.type", 5, "actions[3].type", "unknown action type"),
    ("actions.3.type", "loop", "actions[3].type", 'the action type "loop" is not supported yet (supported: trigger,'),
    ("actions.3.type", "conditional_branch", "actions[3].type", "is not supported yet"),
    ("actions.3.type", "function_sms", "actions[3].type", '"function_sms" is not supported (use function'),
    ("actions.3.type", "email", "actions[3].type", "an email is an action of type function_email"),
    ("actions.3.config.reason", 5, "actions[3].config.reason", "must be text"),
    # edges
    ("edges.2", [], "edges[2]", "must be an object, not a list"),
    ("edges.2.type", "next", "edges[2].type", 'must be "continue" or "branch", not the text "next"'),
    ("edges.2.to", "exitt", "edges[2].to", 'no action has the id "exitt" (did you mean "exit"?)'),
    ("edges.2.index", 0, "edges[2].index", "has no meaning on a continue edge"),
    ("edges.2.from_port", "out", "edges[2].from_port", "named ports are not supported yet"),
    ("edges.2.form", "x", "edges[2].form", 'did you mean "from"?'),
]


@pytest.mark.parametrize(("where", "value", "path", "words"), ONE_FAULT)
def test_a_fault_is_told_at_its_place(where, value, path, words):
    faults = faults_of(changed(loop(), where, value))

    assert path in [fault.path for fault in faults]
    told = next(fault for fault in faults if fault.path == path)
    assert words in str(told)


def test_case_15_a_window_of_ten_years_is_refused_and_not_cut_to_three():  # D27
    (fault,) = faults_of({**loop(), "trigger_masking": {"hash": "a", "ttl": 315_360_000}})

    assert fault.path == "trigger_masking.ttl"
    assert "315360000 is out of range" in str(fault)


@pytest.mark.parametrize(
    ("where", "path"),
    [
        ("name", "name"),
        ("actions", "actions"),
        ("actions.1.id", "actions[1].id"),
        ("actions.1.type", "actions[1].type"),
        ("actions.1.config", "actions[1].config"),
        ("actions.1.config.template_id", "actions[1].config.template_id"),
        ("actions.1.config.inputs.prompt", "actions[1].config.inputs.prompt"),
        ("actions.0.config.filters", "actions[0].config.filters"),
        ("actions.0.config.type", "actions[0].config.type"),
        ("variables.0.key", "variables[0].key"),
        ("edges.0.from", "edges[0].from"),
        ("edges.0.type", "edges[0].type"),
    ],
)
def test_what_is_required_is_missed_at_its_place(where, path):
    faults = faults_of(without(loop(), where))

    assert (path, "is required") in [(fault.path, fault.message) for fault in faults]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("90", "is no duration"),
        ("90 m", "is no duration"),
        ("-5m", "is no duration"),
        ("5w", "is no duration"),
        ("m", "is no duration"),
        ("\u0663m", "is no duration"),
        ("5m\n", "is no duration"),
        ("31d", "the longest delay is 30d"),
        ("721h", "the longest delay is 30d"),
        ("9" * 400 + "d", "the longest delay is 30d"),
        (90, "must be text"),
    ],
)
def test_a_delay_that_is_no_duration_or_over_a_month_is_refused(value, words):
    (fault,) = faults_of(with_action({"type": "delay", "config": {"delay_duration": value}}))

    assert fault.path == "actions[1].config.delay_duration"
    assert words in str(fault)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("90m", 5400), ("48h", 172_800), ("1.5d", 129_600), (".5h", 1800), ("30d", 2_592_000), ("0s", 0)],
)
def test_a_delay_means_what_it_says(text, seconds):
    workflow = parsed(with_action({"type": "delay", "config": {"delay_duration": text}}))

    assert workflow.action("step").config.span.total_seconds() == seconds


@pytest.mark.parametrize("key", ["delay_until", "max_delay_duration"])
def test_a_delay_until_a_date_is_refused_as_not_supported_yet(key):
    faults = faults_of(with_action({"type": "delay", "config": {"delay_duration": "5m", key: {}}}))

    assert [fault.path for fault in faults] == [f"actions[1].config.{key}"]
    assert "not supported yet; use delay_duration" in faults[0].message


def test_asking_again_whether_the_trigger_matches_is_refused_where_it_would_change_something():
    document = {**loop("event"), "exit_condition": "exit_on_trigger_not_matched"}

    (fault,) = faults_of(document)

    assert fault.path == "exit_condition"
    assert "not supported yet" in fault.message


@pytest.mark.parametrize(
    ("key", "default", "words"),
    [("number", "ten", "is no number"), ("number", "true", "is no number"), ("boolean", "yes", "is no boolean")],
)
def test_a_default_must_read_as_its_type(key, default, words):
    document = loop()
    document["variables"].append({"key": "more", "type": key, "default": default})

    (fault,) = faults_of(document)

    assert fault.path == "variables[1].default"
    assert words in fault.message


@pytest.mark.parametrize(
    ("key", "default"), [("number", "-1.5e3"), ("number", ""), ("boolean", "true"), ("boolean", "")]
)
def test_a_default_that_reads_as_its_type_or_is_empty_stays_as_written(key, default):
    document = loop()
    document["variables"].append({"key": "more", "type": key, "default": default})

    assert parsed(document).initial_variables()["more"] == default


def test_a_variable_that_stands_twice_is_told_with_its_first_place():
    document = loop()
    document["variables"] *= 2

    (fault,) = faults_of(document)

    assert fault.path == "variables[1].key"
    assert "first at variables[0]" in fault.message


def test_variables_may_take_five_kilobytes_and_no_byte_more():
    size = len('{"key": "task_final_message", "type": "string", "default": ""}')
    full = changed(loop(), "variables.0.default", "x" * (5120 - size))

    assert parsed(full)
    assert [fault.path for fault in faults_of(changed(full, "variables.0.default", "x" * (5121 - size)))] == [
        "variables"
    ]


@pytest.mark.parametrize("document", [None, 5, "text", [], [loop()], True])
def test_what_is_no_object_is_no_workflow(document):
    (fault,) = faults_of(document)

    assert "a workflow is an object" in fault.message


def test_an_empty_object_lacks_a_name_and_actions():
    assert [(fault.path, fault.message) for fault in faults_of({})] == [
        ("name", "is required"),
        ("actions", "is required"),
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a\0b", "cannot be stored"),
        ("\ud83d", "cannot be stored"),
        (float("nan"), "no JSON number"),
        (float("inf"), "no JSON number"),
        ({1, 2}, "no JSON value"),
        ({5: "x"}, "is no text"),
    ],
)
def test_what_json_or_the_database_cannot_hold_is_refused(value, words):
    (fault,) = faults_of({**loop(), "description": value})

    assert fault.path == "description"
    assert words in fault.message


def test_nesting_without_end_is_refused():
    value: Any = []
    for _ in range(5000):
        value = [value]

    (fault,) = faults_of({**loop(), "description": value})

    assert "nested too deep" in fault.message


def test_every_fault_is_found_in_one_pass():
    document = loop()
    document["nmae"] = "x"
    document["variables"] = [{"key": "a", "type": "date", "default": ""}, {"key": "a", "type": "string"}]
    document["trigger_masking"] = {"hash": "{tenant.id}", "ttl": 5}
    trigger = document["actions"][0]["config"]
    trigger["filters"]["properties"][1:] = [{"key": "action", "value": ["opened"], "operator": "equals"}]
    task = document["actions"][1]
    task["on_eror"] = "abort"
    task["config"]["inputs"]["prompt"]["value"] = "Answer {event.properties.text}"
    task["config"]["inputs"]["max_parallel_tasks"] = {"value": 101}
    document["actions"][2]["config"]["inputs"] = {"text": {"val": "x"}, "chanel": {"value": "C1"}}
    document["actions"].append({"id": "exit", "type": "delay", "config": {"delay_duration": "never"}})
    document["edges"].append(edge("notify", "create_task"))
    document["edges"].append({"from": "notify", "to": "nowhere", "type": "branch", "index": 0})

    paths = sorted(fault.path for fault in faults_of(document))

    assert paths == [
        "actions[0].config.filters.properties",
        "actions[0].config.filters.properties[1].operator",
        "actions[1].config.inputs.max_parallel_tasks",
        "actions[1].config.inputs.prompt",
        "actions[1].on_eror",
        "actions[2].config.inputs.chanel",
        "actions[2].config.inputs.channel",
        "actions[2].config.inputs.slack_workspace",
        "actions[2].config.inputs.text.val",
        "actions[2].config.inputs.text.value",
        "actions[4].config.delay_duration",
        "actions[4].id",
        "edges[3]",
        "edges[4].to",
        "nmae",
        "trigger_masking.hash",
        "trigger_masking.ttl",
        "variables[0].type",
        "variables[1].key",
    ]


def test_a_fault_has_no_echo_in_later_checks():
    document = changed(loop(), "actions.1.config.inputs.prompt", {"valeu": "Do it"})

    assert sorted(fault.path for fault in faults_of(document)) == [
        "actions[1].config.inputs.prompt.valeu",
        "actions[1].config.inputs.prompt.value",
    ]


def test_a_faulty_action_does_not_make_its_neighbours_faulty():
    document = copy.deepcopy(loop())
    document["actions"][1]["id"] = ""

    faults = faults_of(document)

    assert sorted(fault.path for fault in faults) == ["actions[1].id", "edges[0].to", "edges[1].from"]


def test_a_faulty_id_or_name_hides_no_other_fault():
    document = without(loop(), "name")
    document["trigger_masking"] = {"hash": "{tenant.id}"}
    document["actions"][1]["id"] = "i" * 201
    document["actions"][1]["config"]["inputs"]["prompt"]["value"] = "Answer {event}"
    del document["actions"][2]["id"]
    document["actions"][2]["config"]["inputs"]["slack_workspace"]["value"] = "x"

    paths = {fault.path for fault in faults_of(document)}

    assert paths >= {
        "name",
        "trigger_masking.hash",
        "actions[1].id",
        "actions[1].config.inputs.prompt",
        "actions[2].id",
        "actions[2].config.inputs.slack_workspace",
    }
