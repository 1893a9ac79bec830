"""What a workflow says and this release does not do is taken, given back the same, and warned about."""

import pytest

from loops.definition import export_workflow
from loops.definition.inputs import FUNCTIONS
from loops.runs.templates import TEMPLATES
from tests.unit.definition.documents import (
    changed,
    faults_of,
    parsed,
    with_action,
    with_function,
)

MASKING = {"hash": "{event.properties.number}", "ttl": 3600}
WORKING = {"type": "function", "config": {"template_id": "template-log", "inputs": {"text": {"value": "x"}}}}


def told(document):
    """The paths and messages of a document's warnings, which must not change what is exported."""
    workflow = parsed(document)
    assert export_workflow(workflow) == document
    return {warning.path: warning.message for warning in workflow.warnings}


def test_a_workflow_that_this_release_carries_out_has_no_warning():
    assert told(with_action(WORKING)) == {}


def test_a_trigger_that_nothing_starts_is_a_warning():
    assert told(with_action(WORKING, "schedule")) == {
        "actions[0].config.type": "nothing starts a workflow of this trigger type in this release yet"
    }


@pytest.mark.parametrize("trigger", ["manual", "webhook"])
def test_a_trigger_that_a_request_fires_is_no_warning(trigger):
    assert told(with_action(WORKING, trigger)) == {}


def test_the_slack_event_starts_a_workflow_as_the_github_event_does():
    assert told(with_action(WORKING, "slack")) == {}


def test_an_input_that_nothing_uses_yet_is_a_warning():
    given = {"repository": "acme/widgets", "connectors": [3], "skills": ["triage"], "channel": "9|operations"}
    document = with_function("template-posthog-create-task", prompt="Do it", **given)
    place = "actions[1].config.inputs"

    assert list(told(document)) == [f"{place}.{name}" for name in given]
    assert told(with_function("template-posthog-create-task", prompt="Do it")) == {}


def test_every_function_that_a_workflow_may_name_is_carried_out():
    assert set(FUNCTIONS) == set(TEMPLATES)


def test_masking_is_said_to_hold_nothing_back():
    document = {**with_action(WORKING), "trigger_masking": MASKING}

    assert told(document) == {"trigger_masking": "masking is not applied yet: every match starts a run"}


@pytest.mark.parametrize("trigger", ["schedule", "manual"])
def test_masking_that_would_never_apply_is_not_said_to_apply_later(trigger):
    message = told({**with_action(WORKING, trigger), "trigger_masking": MASKING})["trigger_masking"]

    assert "yet" not in message


@pytest.mark.parametrize("name", [["$slack_message_received"], {"a": 1}, 5, None])
def test_an_event_whose_id_is_no_name_is_refused_and_not_looked_up(name):
    faults = faults_of(changed(with_action(WORKING), "actions.0.config.filters.events.0.id", name))

    assert "actions[0].config.filters.events[0].id" in [fault.path for fault in faults]
