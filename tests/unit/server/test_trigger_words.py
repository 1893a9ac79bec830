from typing import Any

import pytest

from server.trigger_words import trigger_words


def _trigger(**config: Any) -> dict[str, Any]:
    return {"actions": [{"type": "exit"}, {"type": "trigger", "config": config}]}


def test_a_github_trigger_is_told_by_its_event_types_and_the_rest_as_conditions() -> None:
    words = trigger_words(
        _trigger(
            type="internal-event",
            filters={
                "events": [
                    {
                        "id": "$github_event_received",
                        "properties": [{"key": "draft", "operator": "is_not", "value": True}],
                    }
                ],
                "properties": [
                    {"key": "event_type", "value": ["issues", "push"]},
                    {"key": "repository", "value": ["acme/widgets"], "operator": "exact"},
                    {"key": "label", "operator": "is_set"},
                ],
            },
        )
    )
    assert words.kind == "GitHub: issues or push"
    assert words.conditions == (
        ("repository", 'exactly "acme/widgets"'),
        ("label", "any value"),
        ("draft", "anything but true"),
    )


def test_groups_expressions_and_what_is_read_elsewhere_are_told_as_conditions() -> None:
    words = trigger_words(
        _trigger(
            type="event",
            filters={
                "events": [{"id": "paid"}],
                "actions": [{"id": 12, "name": "Bought"}, {"id": 13}],
                "properties": [
                    {
                        "type": "OR",
                        "values": [{"key": "plan", "value": "pro"}, {"key": "size", "operator": "gt", "value": 5}],
                    },
                    {"type": "hogql", "key": "properties.amount > 100", "value": None},
                    {"type": "person", "key": "email", "operator": "not_icontains", "value": "@acme.com"},
                    {"type": "group", "group_type_index": 0, "key": "plan", "operator": "is_set"},
                ],
                "filter_test_accounts": True,
            },
        )
    )
    assert words.kind == "paid or the action Bought or the action 13"
    assert words.conditions == (
        ("one of", '(plan exactly "pro"; size more than 5)'),
        ("properties.amount > 100", "true"),
        ("person.email", 'text that does not contain "@acme.com"'),
        ("group_0.plan", "any value"),
        ("test accounts", "left out"),
    )
    whole = trigger_words(
        _trigger(type="event", filters={"properties": {"type": "AND", "values": [{"key": "a", "value": 1}]}})
    )
    assert whole.conditions == (("all of", "(a exactly 1)"),)


@pytest.mark.parametrize(
    ("definition", "kind"),
    [
        (_trigger(type="schedule"), "On a schedule"),
        (_trigger(type="manual"), "By hand"),
        (_trigger(type="webhook"), "A request to its own URL"),
        (
            _trigger(type="event", filters={"events": [{"id": "$pageview"}, {"id": "signed up"}]}),
            "$pageview or signed up",
        ),
        (_trigger(type="event", filters={}), "Any event"),
        (_trigger(type="event"), "Any event"),
        (_trigger(type="internal-event", filters={"events": [{"id": "$slack_message_received"}]}), "Slack"),
        ({}, "No trigger"),
        ({"actions": "of another release"}, "No trigger"),
        ({"actions": [{"type": "trigger"}]}, "No trigger"),
    ],
)
def test_every_stored_trigger_has_words(definition: dict[str, Any], kind: str) -> None:
    assert trigger_words(definition).kind == kind


@pytest.mark.parametrize(
    ("types", "action", "kind", "left"),
    [
        (["issues"], {"value": ["opened"]}, "GitHub: issues opened", 0),
        ("issues", {"value": ["opened", "closed"], "operator": "exact"}, "GitHub: issues opened or closed", 0),
        (["issues"], {"value": "opened", "operator": "is_not"}, "GitHub: issues", 1),
        (["issues", "pull_request"], {"value": ["opened"]}, "GitHub: issues or pull_request", 1),
    ],
)
def test_the_action_of_one_event_type_stands_beside_it(types: Any, action: Any, kind: str, left: int) -> None:
    properties = [{"key": "event_type", "value": types}, {"key": "action", **action}]
    filters = {"events": [{"id": "$github_event_received"}], "properties": properties}
    words = trigger_words(_trigger(type="internal-event", filters=filters))
    assert (words.kind, len(words.conditions)) == (kind, left)
