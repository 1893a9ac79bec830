"""The inputs of the function templates: what each takes, and which of them are templates."""

from typing import Any

import pytest

from loops.definition import compile_workflow, export_workflow
from loops.errors import Fault
from tests.unit.definition.documents import (
    changed,
    compiled_of,
    faults_of,
    loop,
    parsed,
    warned,
    with_email,
    with_function,
)

TASK = "template-posthog-create-task"


def refused_input(template_id: str, **values: Any) -> Fault:
    """The one fault of a function with these inputs; its path within the inputs."""
    (fault,) = faults_of(with_function(template_id, **values))
    return Fault(fault.path.removeprefix("actions[1].config.inputs."), fault.message, fault.hint)


def inputs_of(template_id: str, **values: Any) -> Any:
    return compiled_of(with_function(template_id, **values)).inputs("step")


def test_a_task_has_the_documented_defaults():
    rendered = compiled_of(with_function(TASK, prompt="Do it")).render("step", {})

    assert rendered == {
        "prompt": "Do it",
        "staged": False,
        "connectors": [],
        "skills": [],
        "posthog_mcp_scopes": "read_only",
        "reply_in_slack_thread": True,
        "allow_external_users": False,
        "allow_everyone_in_thread": False,
        "max_parallel_tasks": 5,
        "non_failure_status_codes": [409],
    }


def test_a_task_takes_every_input_that_it_has():
    given = {
        "prompt": "Look after {variables.area}",
        "title": "Look after {variables.area}",
        "model": {"model": "openai:large", "reasoning_effort": "high"},
        "repository": "acme/widgets.js",
        "staged": True,
        "connectors": [3, "4"],
        "skills": [f"skill-{number}" for number in range(10)],
        "posthog_mcp_scopes": "full",
        "channel": "9|operations",
        "reply_in_slack_thread": False,
        "allow_external_users": True,
        "allow_everyone_in_thread": True,
        "max_parallel_tasks": 100,
        "non_failure_status_codes": [409, "5XX"],
    }
    document = with_function(TASK, **given)
    document["variables"] = [{"key": "area", "type": "string", "default": "sales"}]

    workflow = parsed(document)
    rendered = compile_workflow(workflow).render("step", {"variables": {"area": "sales"}})

    assert rendered == given | {
        "prompt": 'Look after "sales"',
        "title": 'Look after "sales"',
        "connectors": ["3", "4"],
        "non_failure_status_codes": [409, "5xx"],
    }
    assert export_workflow(workflow) == document


def test_a_model_may_be_given_by_its_name_alone():
    assert inputs_of(TASK, prompt="Do it", model="openai:small")["model"]["model"] == "openai:small"


@pytest.mark.parametrize(
    ("name", "value", "path", "words"),
    [
        ("prompt", 5, "prompt", "must be text, not the number 5"),
        ("prompt", "  \n", "prompt", "must not be blank"),
        ("title", "t" * 256, "title", "has 256 characters (at most 255)"),
        ("model", 5, "model", "must be an object, not the number 5"),
        ("model", {"name": "x", "model": "y"}, "model.value.name", 'unknown key "name"'),
        ("model", {"reasoning_effort": "low"}, "model.value.model", "is required"),
        ("repository", "widgets", "repository", "write owner/name"),
        ("repository", "acme/widgets/main", "repository", "write owner/name"),
        ("repository", "{event.properties.repository}", "repository", "templates are not rendered here"),
        ("repository", ["acme/widgets"], "repository", "must be text, not a list"),
        ("connectors", "3", "connectors", "must be a list"),
        ("connectors", ["3", True], "connectors.value[1]", "must be text, not true"),
        ("connectors", ["3", ""], "connectors.value[1]", "must not be blank"),
        ("skills", ["a"] * 11, "skills", "holds 11 entries (at most 10)"),
        ("skills", [1], "skills.value[0]", "must be text"),
        ("posthog_mcp_scopes", "write", "posthog_mcp_scopes", 'must be "read_only" or "full", not the text "write"'),
        ("channel", "|operations", "channel", "write <space id>|<space name>"),
        ("reply_in_slack_thread", "{true}", "reply_in_slack_thread", "must be true or false, not the text"),
        ("max_parallel_tasks", 0, "max_parallel_tasks", "0 is out of range (allowed: 1 to 100)"),
        ("max_parallel_tasks", 101, "max_parallel_tasks", "allowed: 1 to 100"),
        ("max_parallel_tasks", 2.5, "max_parallel_tasks", "must be a whole number, not the number 2.5"),
        ("non_failure_status_codes", [200], "non_failure_status_codes.value[0]", "200 is no status code"),
        ("non_failure_status_codes", [409, "3xx"], "non_failure_status_codes.value[1]", "from 400 to 599"),
        ("promt", "x", "promt", 'did you mean "prompt"?'),
    ],
)
def test_a_task_refuses_what_it_cannot_take(name, value, path, words):
    fault = refused_input(TASK, **{"prompt": "Do it", name: value})

    assert fault.path == path
    assert words in str(fault)


@pytest.mark.parametrize("nothing", [None, ""])
def test_an_optional_input_that_says_nothing_is_as_good_as_left_out(nothing):
    document = with_function(TASK, prompt="Do it", title=nothing, repository=nothing, skills=nothing)

    workflow = parsed(document)

    assert "repository" not in compile_workflow(workflow).inputs("step")
    assert export_workflow(workflow) == document


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_required_input_that_says_nothing_is_missed(nothing):
    assert refused_input(TASK, prompt=nothing) == Fault("prompt", "is required")


@pytest.mark.parametrize("name", ["prompt", "title"])
@pytest.mark.parametrize(
    ("text", "shown", "hint"),
    [
        (
            "Answer {event.properties.text}",
            "{event.properties.text}",
            "write instead: read the text property of the triggering event",
        ),
        ("Answer {event}", "{event}", "say in words which property of the triggering event to read"),
        ("Greet {person.properties.name}", "{person.properties.name}", "say in words"),
        ("See {steps.trigger.body}", "{steps.trigger.body}", "{variables.<key>}"),
        ("Do {request.body.text}", "{request.body.text}", "{variables.<key>}"),
        ("Do {concat(event.properties.title, '')}", "{event.properties.title}", "read the title property"),
        ("Do {inputs.title}", "{inputs.title}", "{variables.<key>}"),
    ],
)
def test_event_text_in_an_instruction_is_refused_with_the_reason_and_what_to_write(name, text, shown, hint):
    fault = refused_input(TASK, **{"prompt": "Do it", name: text})

    assert fault.path == name
    assert fault.message == f"{shown} is refused: event text in a prompt is an instruction to whoever reads it"
    assert hint in fault.hint


def test_event_text_in_a_liquid_instruction_is_refused_too():
    document = with_function(TASK, prompt="Answer {{ event.properties.text }}")
    document["actions"][1]["config"]["inputs"]["prompt"]["templating"] = "liquid"

    (fault,) = faults_of(document)

    assert fault.path == "actions[1].config.inputs.prompt"
    assert "event text in a prompt" in fault.message


def test_an_instruction_may_hold_literal_braces():
    inputs = compiled_of(with_function(TASK, prompt=r"Answer as \{ok: true}"))

    assert inputs.render("step", {})["prompt"] == "Answer as {ok: true}"


def test_double_braces_in_a_hog_field_are_refused():
    fault = refused_input("template-log", text="{{ event.properties.title }}")

    assert fault.path == "text"
    assert "single braces" in fault.message


def test_a_name_that_no_template_here_can_read_is_refused_with_the_nearest():
    fault = refused_input("template-log", text="{evnt.properties.title}")

    assert str(fault) == 'text: evnt is not available in this template (did you mean "event"?)'


def test_a_step_that_does_not_exist_is_refused():
    fault = refused_input("template-log", text="{steps.trigr.text}")

    assert str(fault) == 'text: no action has the id "trigr" (did you mean "trigger"?)'


def test_a_variable_that_nothing_declares_is_a_warning():
    document = changed(loop(), "actions.2.config.inputs.text.value", "{variables.task_final_mesage}")

    (warning,) = warned(parsed(document))

    assert warning.path == "actions[2].config.inputs.text"
    assert str(warning).endswith('is not declared (did you mean "task_final_message"?)')


def test_a_variable_that_a_spread_result_may_set_is_no_warning():
    document = changed(loop(), "actions.1.output_variable", {"key": "task", "spread": True})
    document = changed(document, "actions.2.config.inputs.text.value", "{variables.task_status}")

    assert warned(parsed(document)) == []


def test_a_log_line_takes_text_alone():
    compiled = compiled_of(with_function("template-log", text="{1 + 2}"))

    assert compiled.render("step", {}) == {"text": 3}


@pytest.mark.parametrize(
    ("values", "path", "words"),
    [
        ({}, "text", "is required"),
        ({"text": "x", "level": "info"}, "level", 'unknown key "level" (known here: text)'),
        ({"text": "x", "txt": "y"}, "txt", 'did you mean "text"?'),
    ],
)
def test_a_log_line_refuses_what_it_cannot_take(values, path, words):
    fault = refused_input("template-log", **values)

    assert (fault.path, words in str(fault)) == (path, True)


def test_a_slack_message_takes_every_input_that_it_has():
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "{event.properties.title}"}}]
    document = with_function(
        "template-slack",
        slack_workspace="7",
        channel="C0RESULTS|#results",
        text="{event.properties.title}",
        blocks=blocks,
        thread_ts="{event.properties.ts}",
        username="Loops",
        icon_emoji=":loop:",
    )
    scope = {"event": {"properties": {"title": "Broken", "ts": "1.2"}}}

    rendered = compiled_of(document).render("step", scope)

    assert rendered == {
        "slack_workspace": 7,
        "channel": "C0RESULTS",
        "text": "Broken",
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "Broken"}}],
        "thread_ts": "1.2",
        "username": "Loops",
        "icon_emoji": ":loop:",
    }


@pytest.mark.parametrize("given", ["x", "7.0", "", 0, -7, 7.0, True, None, "\u0667", str(2**63), [7]])
def test_a_connection_is_named_by_its_id(given):
    faults = faults_of(with_function("template-slack", slack_workspace=given, channel="C1", text="x"))

    assert [fault.path for fault in faults] == ["actions[1].config.inputs.slack_workspace"]


@pytest.mark.parametrize("values", [{}, {"text": ""}, {"text": None, "blocks": []}])
def test_a_slack_message_without_text_and_blocks_is_refused(values):
    fault = refused_input("template-slack", slack_workspace=7, channel="C1", **values)

    assert str(fault) == "text: text or blocks is required: the message would be empty"


def test_blocks_alone_are_enough_for_a_slack_message():
    assert inputs_of("template-slack", slack_workspace=7, channel="C1", blocks=[{"type": "divider"}])


def test_an_email_is_escaped_in_its_html_alone():
    document = with_email(
        subject="{{ event.properties.title }}",
        text="{{ event.properties.title }}",
        html="<b>{{ event.properties.title }}</b>",
        design={"body": "{{ left alone }}"},
    )
    scope = {"event": {"properties": {"title": "a & <b>"}}}

    rendered = compiled_of(document).render("step", scope)["email"]

    assert rendered == {
        "from": {"integrationId": 8, "name": "", "email": None},
        "to": {"email": "ada@example.com", "name": ""},
        "cc": None,
        "bcc": None,
        "replyTo": None,
        "subject": "a & <b>",
        "preheader": None,
        "text": "a & <b>",
        "html": "<b>a &amp; &lt;b&gt;</b>",
        "design": {"body": "{{ left alone }}"},
    }


@pytest.mark.parametrize("changes", [{"html": ""}, {"html": None}, {"text": None, "html": "<p>done</p>"}])
def test_an_email_needs_text_or_html(changes):
    assert warned(parsed(with_email(**changes))) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"from": None}, "the email lacks from"),
        ({"text": None}, "the email lacks text or html"),
        ({"text": "", "html": ""}, "the email lacks text or html"),
        (
            {"from": None, "to": None, "subject": "", "text": None, "html": ""},
            "the email lacks from, to, subject and text or html",
        ),
    ],
)
def test_all_that_an_email_lacks_is_listed_at_once(changes, words):
    (fault,) = faults_of(with_email(**changes))

    assert (fault.path, fault.message) == ("actions[1].config.inputs.email", words)


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"from": {"integrationId": "x"}}, "from.integrationId", "must be the id of a connection"),
        ({"from": {"name": "Loops"}}, "from.integrationId", "is required"),
        ({"from": {"integrationId": 8, "integrationIds": [8, 9]}}, "from.integrationIds", "are not supported"),
        ({"from": "ada@example.com"}, "from", "must be an object"),
        ({"to": {"email": "ada"}}, "to.email", "is no email address"),
        ({"to": {"email": "ada@example.com, bo@example.com"}}, "to.email", "write one address"),
        ({"to": {"email": "ada@example.com\nBcc: bo@example.com"}}, "to.email", "is no email address"),
        ({"to": {"email": "ada@example.com", "name": "Ada\r\nBcc: x"}}, "to.name", "must be one line"),
        ({"subject": "Done\n"}, "subject", "must be one line"),
        ({"subject": "Done\u2028Bcc: x"}, "subject", "must be one line"),
        ({"cc": {"email": "bo@example.com"}}, "cc", "must be text"),
        ({"cc": "bo@example.com, bo"}, "cc", "is no list of email addresses"),
        ({"bcc": "bo@example.com\nBcc: x@example.com"}, "bcc", "must be one line"),
        ({"replyTo": "nobody"}, "replyTo", "is no list of email addresses"),
        ({"reply_to": "bo@example.com"}, "reply_to", "write replyTo"),
        ({"sbject": "x"}, "sbject", 'did you mean "subject"?'),
        ({"html": "{% if event %}x"}, "html", "expected tag endif"),
    ],
)
def test_an_email_refuses_what_it_cannot_send(changes, path, words):
    (fault,) = faults_of(with_email(**changes))

    assert fault.path == f"actions[1].config.inputs.email.value.{path}"
    assert words in str(fault)


def test_case_100_an_email_has_no_address_to_unsubscribe_at_and_says_so_when_saved():
    (fault,) = faults_of(with_email(text="Done. {{ unsubscribe_url }}"))

    assert fault.path == "actions[1].config.inputs.email.value.text"
    assert fault.message == "unsubscribe_url is not available in this template"
    assert fault.hint.startswith("available: ")


def test_an_address_may_be_a_template():
    document = with_email(to={"email": "{{ person.properties.email }}"})
    scope = {"person": {"properties": {"email": "ada@example.com"}}}

    rendered = compiled_of(document).render("step", scope)["email"]

    assert rendered["to"]["email"] == "ada@example.com"


def test_an_email_may_have_copies_and_other_readers_of_answers():
    given = {"cc": "Bo <bo@example.com>, cy@example.com", "bcc": "{{ person.email }}", "replyTo": "", "preheader": "Hi"}
    document = with_email(**given, html="<p>x</p>")
    scope = {"person": {"email": "di@example.com"}}

    rendered = compiled_of(document).render("step", scope)["email"]

    assert {name: rendered[name] for name in given} == {**given, "bcc": "di@example.com"}
    assert export_workflow(parsed(document)) == document


def test_a_preheader_that_no_reader_would_see_is_a_warning():
    (warning,) = warned(parsed(with_email(preheader="Hi", html="")))

    assert warning.path == "actions[1].config.inputs.email.value.preheader"


def test_tp_04_single_braces_in_a_liquid_field_are_a_warning():
    (warning,) = warned(parsed(with_email(text="It said {variables.task_final_message}.")))

    assert warning.path == "actions[1].config.inputs.email.value.text"
    assert warning.message.startswith("{variables.task_final_message} is sent as it stands")
    assert warning.hint == "write {{variables.task_final_message}}"


@pytest.mark.parametrize(
    "text", ["{{ variables.a }}", "{% if variables.a %}x{% endif %}", "a {note} and {}", "{{variables.a}}"]
)
def test_other_braces_in_a_liquid_field_are_no_warning(text):
    document = with_email(text=text)
    document["variables"] = [{"key": "a", "type": "string", "default": ""}]

    assert warned(parsed(document)) == []


def test_the_mailer_keys_of_posthog_are_accepted_and_said_to_do_nothing():
    document = with_email()
    document["actions"][1]["config"] |= {"tracking_enabled": True, "message_category_type": "transactional"}

    workflow = parsed(document)

    assert [warning.path for warning in warned(workflow)] == [
        "actions[1].config.message_category_type",
        "actions[1].config.tracking_enabled",
    ]
    assert export_workflow(workflow) == document


def test_an_email_need_not_name_its_template():
    document = with_email()
    del document["actions"][1]["config"]["template_id"]

    workflow = parsed(document)

    assert workflow.action("step").config.template_id == "template-email"
    assert export_workflow(workflow) == document


def test_inputs_are_rendered_in_their_order_and_later_ones_read_earlier_ones():
    document = with_function(
        "template-slack", slack_workspace=7, channel="C1", text="{inputs.username}!", username="Bo"
    )
    inputs = document["actions"][1]["config"]["inputs"]
    inputs["text"]["order"], inputs["username"]["order"] = 2, 1

    compiled = compiled_of(document)

    assert compiled.render("step", {})["text"] == "Bo!"
    assert list(compiled.inputs("step")) == ["slack_workspace", "channel", "username", "text"]
