from typing import Any

import pytest

from server.pages.words import compared, sentence, size_words, span_words, stage_words, trigger_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-0.2, "< 1 ms"),
        (0.0004, "< 1 ms"),
        (0.0006, "1 ms"),
        (0.0424, "42 ms"),
        (1, "1.0 s"),
        (0.9996, "1.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (12.3, "12 s"),
        (59.4, "59 s"),
        (59.7, "1 min"),
        (60, "1 min"),
        (192, "3 min 12 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86_400 * 3 + 4 * 3600 + 59, "3 d 4 h"),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert span_words(seconds) == words


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (3400, "3.4 KB"), (2_100_000, "2.1 MB")]
)
def test_a_size_is_told_in_one_unit(size: int, words: str) -> None:
    assert size_words(size) == words


def test_stages_are_told_in_words_and_an_unknown_one_by_its_name() -> None:
    assert stage_words("filters") == "stopped by its filters"
    assert stage_words("start") == "started a run"
    assert stage_words("start", recomputed=True) == "would start a run"
    assert stage_words("own_brake") == "own brake"


def test_a_comparison_is_told_as_wanted_and_found() -> None:
    told = compared({"key": "action", "operator": "exact", "expected": ["a", "b"], "actual": None, "passed": False})
    assert (told.key, told.wanted, told.found, told.passed) == ("action", 'one of "a", "b"', "not set", False)
    assert compared(
        {"key": "n", "operator": "of_a_newer_release", "expected": 1, "actual": 2, "passed": True}
    ).wanted == ("of_a_newer_release 1")


def test_only_the_head_of_a_sentence_is_made_a_capital() -> None:
    assert sentence("its Body was removed") == "Its Body was removed"
    assert sentence("") == ""


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


def test_a_comparison_that_could_not_be_made_says_so() -> None:
    stored = {"key": "body", "operator": "regex", "expected": "x", "actual": "a", "passed": False, "error": "too long"}
    assert compared(stored).found == "filter error: too long"


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
