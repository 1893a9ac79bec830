"""What a workflow says and that has no effect is taken, given back the same, and warned about."""

import pytest

from loops.definition import export_workflow
from loops.definition.inputs import FUNCTIONS
from loops.runs.templates import TEMPLATES
from tests.unit.definition.documents import (
    changed,
    faults_of,
    parsed,
    with_action,
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


@pytest.mark.parametrize("trigger", ["manual", "webhook", "schedule"])
def test_a_trigger_that_no_event_fires_is_no_warning(trigger):
    assert told(with_action(WORKING, trigger)) == {}


def test_the_slack_event_starts_a_workflow_as_the_github_event_does():
    assert told(with_action(WORKING, "slack")) == {}


def test_every_function_that_a_workflow_may_name_is_carried_out():
    assert set(FUNCTIONS) == set(TEMPLATES)


def test_masking_is_applied_and_not_warned_of():
    assert told({**with_action(WORKING), "trigger_masking": MASKING}) == {}


BRAKES = {
    "trigger_rate_limit": {"count": 1, "period": 60},
    "trigger_debounce": {"quiet": 60, "longest": 600, "key": "{event.properties.number}"},
    "trigger_overlap": {"policy": "queue", "maximum": 3},
}


def test_brakes_are_applied_and_not_warned_of():
    assert told({**with_action(WORKING), **BRAKES}) == {}


@pytest.mark.parametrize("trigger", ["schedule", "manual"])
def test_brakes_that_hold_for_deliveries_alone_are_a_warning_on_other_triggers(trigger):
    message = f"has no effect: a trigger of type {trigger} starts whenever it is asked to"
    assert told({**with_action(WORKING, trigger), **BRAKES}) == dict.fromkeys(list(BRAKES)[:2], message)


def test_a_key_of_the_person_where_there_is_none_is_a_warning():
    document = {**with_action(WORKING), "trigger_overlap": {"policy": "skip", "key": "{person.id}"}}
    assert list(told(document)) == ["trigger_overlap.key"]


@pytest.mark.parametrize("trigger", ["schedule", "manual"])
def test_masking_of_a_trigger_that_is_never_masked_is_a_warning(trigger):
    message = told({**with_action(WORKING, trigger), "trigger_masking": MASKING})["trigger_masking"]

    assert message == f"has no effect: a trigger of type {trigger} is never masked"


@pytest.mark.parametrize("hash_text", ["{person.id}", "{concat(person.id, '-', event.event)}"])
def test_a_hash_of_the_person_on_a_trigger_without_one_is_a_warning(hash_text):  # D3, MQ-01
    warned = told({**with_action(WORKING), "trigger_masking": {"hash": hash_text}})

    assert warned == {
        "trigger_masking.hash": "reads the person, and a trigger of type internal-event has none: nothing is masked"
    }
    assert "trigger_masking.hash" not in told({**with_action(WORKING, "event"), "trigger_masking": {"hash": hash_text}})


def test_a_threshold_that_masks_nothing_is_a_warning():  # d20
    warned = told({**with_action(WORKING), "trigger_masking": {**MASKING, "threshold": 1}})

    assert warned == {"trigger_masking.threshold": "1 lets every match start a run"}


@pytest.mark.parametrize("name", [["$slack_message_received"], {"a": 1}, 5, None])
def test_an_event_whose_id_is_no_name_is_refused_and_not_looked_up(name):
    faults = faults_of(changed(with_action(WORKING), "actions.0.config.filters.events.0.id", name))

    assert "actions[0].config.filters.events[0].id" in [fault.path for fault in faults]
