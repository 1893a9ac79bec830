"""What a start by hand says: variables that fit, and its event."""

from datetime import UTC, datetime
from typing import Any

import pytest

from loops.errors import Conflict, PayloadMalformed, RequestError
from triggers.manual.event import read_variables, to_event, trigger_started_by_hand

NOW = datetime(2026, 11, 2, 9, 0, 1, tzinfo=UTC)
DEFINITION: dict[str, Any] = {
    "variables": [
        {"key": "customer", "type": "string", "default": ""},
        {"key": "count", "type": "number", "default": "5"},
        {"key": "dry", "type": "boolean", "default": "true"},
    ]
}
MANUAL = {"type": "manual", "template_id": "template-source-webhook"}


def test_only_what_is_given_is_set_in_its_type() -> None:
    assert read_variables(DEFINITION, {}) == {}
    given: dict[str, Any] = {"customer": "5", "count": 7.5, "dry": False}
    assert read_variables(DEFINITION, given) == given


def test_numbers_and_booleans_may_be_text_as_defaults_are() -> None:
    assert read_variables(DEFINITION, {"count": "7", "dry": "false"}) == {"count": 7, "dry": False}


@pytest.mark.parametrize(
    ("given", "words", "path"),
    [
        ({"custommer": "x"}, 'declares no variable "custommer"', "variables.custommer"),
        ({"customer": 5}, '"customer" must be text', "variables.customer"),
        ({"customer": None}, '"customer" must be text', "variables.customer"),
        ({"count": "five"}, '"count" must be a number', "variables.count"),
        ({"count": True}, '"count" must be a number', "variables.count"),
        ({"count": "NaN"}, '"count" must be a number', "variables.count"),
        ({"dry": "yes"}, '"dry" must be true or false', "variables.dry"),
        ({"dry": 1}, '"dry" must be true or false', "variables.dry"),
        ({"customer": "x" * 5121}, "5120 is the limit", "variables"),
    ],
)
def test_a_variable_that_does_not_fit_is_refused_by_its_name(given: dict[str, Any], words: str, path: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_variables(DEFINITION, given)
    assert words in caught.value.message
    assert caught.value.path == path


def test_the_event_says_who_started_it_and_with_what() -> None:
    event = to_event(MANUAL, {"customer": "acme"}, "ada", "u1", NOW)
    assert (event.name, event.distinct_id, event.source, event.verified) == (
        "$workflow_triggered", "ada", "manual", True,
    )  # fmt: skip
    assert event.properties == {"user_id": "ada", "$variables": {"customer": "acme"}}


def test_the_templates_of_a_manual_trigger_make_its_event() -> None:
    inputs = {
        "distinct_id": {"value": "{request.body.$variables.customer}"},
        "properties": {"value": {"who": "{request.body.user_id}"}},
    }
    event = to_event({**MANUAL, "inputs": inputs}, {"customer": "acme"}, "ada", "u1", NOW)
    assert (event.distinct_id, event.properties) == ("acme", {"who": "ada"})
    with pytest.raises(PayloadMalformed, match="distinct_id is empty"):
        to_event({**MANUAL, "inputs": inputs}, {}, "ada", "u1", NOW)


def test_a_schedule_that_is_run_by_hand_has_the_same_event() -> None:
    event = to_event({"type": "schedule"}, {}, "ada", "u1", NOW)
    assert (event.name, event.distinct_id) == ("$workflow_triggered", "ada")


@pytest.mark.parametrize("kind", ["internal-event", "event", "webhook"])
def test_a_workflow_that_events_start_is_not_started_by_hand_and_replay_is_named(kind: str) -> None:
    with pytest.raises(Conflict) as caught:
        trigger_started_by_hand({"actions": [{"type": "trigger", "config": {"type": kind}}]}, "mine")
    assert "loops replay" in caught.value.hint
