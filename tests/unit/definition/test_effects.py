"""Which workflows may change something outside."""

from typing import Any

import pytest

from loops.definition import compile_workflow
from loops.definition.effects import HARMLESS_ACTIONS, written_by
from loops.definition.inputs import FUNCTIONS
from loops.definition.schema import actions
from tests.unit.definition.documents import changed, parsed, with_action, with_email, with_function

TASK = "template-posthog-create-task"


def writes(document: Any) -> tuple[str, ...]:
    return compile_workflow(parsed(document)).writes


def task(**inputs: Any) -> Any:
    return with_function(TASK, prompt="Look into it.", **inputs)


@pytest.mark.parametrize(
    "document",
    [
        with_action(
            {"type": "function", "config": {"template_id": "template-log", "inputs": {"text": {"value": "x"}}}}
        ),
        with_action({"type": "delay", "config": {"delay_duration": "5m"}}),
        with_function("template-slack", slack_workspace=7, channel="C1", text="{event.properties.text}"),
        with_email(),
        task(),
        task(posthog_mcp_scopes="read_only", connectors=["12"], skills=["triage"], channel="s1|Triage", repository=""),
    ],
    ids=["log", "delay", "slack", "email", "task", "task with more"],
)
def test_what_only_reads_and_reports_writes_nothing(document: Any) -> None:
    assert writes(document) == ()


def test_a_task_writes_with_a_repository_or_with_full_scopes() -> None:
    assert writes(task(repository="acme/widgets"))[0].endswith("its task works on the repository acme/widgets")
    assert writes(task(posthog_mcp_scopes="full"))[0].endswith("its task has the scopes full")


def test_a_message_whose_recipient_the_event_may_choose_counts_as_writing() -> None:
    slack = with_function("template-slack", slack_workspace=7, channel="{event.properties.channel}", text="x")
    assert writes(slack)[0].endswith("the event may choose its channel")
    mail = changed(with_email(), "actions.1.config.inputs.email.value.to.email", "{{ person.properties.email }}")
    copied = with_email(cc="{{ person.properties.email }}"), with_email(bcc="{{ person.properties.email }}")
    for document in (mail, *copied):
        assert writes(document)[0].endswith("the event may choose its recipient")
    assert writes(with_email(cc="bo@example.com")) == ()


def test_every_action_that_may_write_is_named() -> None:
    document = task(repository="acme/widgets")
    again = {**document["actions"][1], "id": "again"}
    document["actions"].insert(2, again)
    document["edges"] = [
        {"from": one["id"], "to": other["id"], "type": "continue"}
        for one, other in zip(document["actions"], document["actions"][1:], strict=False)
    ]
    assert [told.partition(":")[0] for told in writes(document)] == [document["actions"][1]["id"], "again"]


def test_what_is_not_known_to_be_harmless_counts_as_writing() -> None:
    action = parsed(task()).actions[1]
    unknown = action.model_copy(update={"type": "script", "config": actions.ExitConfig()})
    assert written_by(unknown) == f"{action.id}: an action of type script may write"
    config = action.config.model_copy(update={"template_id": "template-new"})
    assert written_by(action.model_copy(update={"config": config})) == f"{action.id}: template-new may write"


def test_every_function_template_of_this_release_was_thought_of() -> None:
    action = parsed(task()).actions[1]
    for template_id in FUNCTIONS:
        config = action.config.model_copy(update={"template_id": template_id, "inputs": {}})
        assert written_by(action.model_copy(update={"config": config})) is None, template_id
    assert "function" not in HARMLESS_ACTIONS
