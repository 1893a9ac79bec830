from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from loops.agent.guards import Ending
from loops.agent.transcript import Finish, Guard, Usage
from server.pages.tasks import activity_words, ending_words, model_words, shown_round
from tests.doubles.tasks import a_round

NOW = datetime(2026, 7, 6, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("ending", get_args(Ending))
def test_every_ending_of_an_agent_has_its_words(ending: str) -> None:
    assert "_" not in ending_words(ending)
    assert ending_words(ending) != ending or ending == "cancelled"


@pytest.mark.parametrize("guard", get_args(Guard))
def test_every_guard_has_its_words(guard: Any) -> None:
    assert shown_round("t", a_round(1, guard=guard)).guard.startswith("told to finish: ")


@pytest.mark.parametrize("finish", get_args(Finish))
def test_an_answer_that_did_not_come_whole_says_so(finish: str) -> None:
    told = shown_round("t", a_round(1, finish=finish)).finish
    assert (told == "") == (finish in {"stop", "tool_calls"})


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("anthropic:claude-sonnet-5", "anthropic:claude-sonnet-5"),
        ("scripted", "scripted"),
        ("scripted:demo", "scripted:demo"),
        ("ollama:scripted", "ollama:scripted"),
        ("", "the model of this service"),
    ],
)
def test_a_model_goes_by_its_name_and_a_scripted_one_by_what_it_is(model: str, words: str) -> None:
    assert model_words(model) == words


@pytest.mark.parametrize(
    ("activity", "words"),
    [
        (None, ""),
        ({}, ""),
        ({"round": 1, "phase": "asking", "text": "", "calls": []}, "round 1: asking the model"),
        ({"round": 1, "phase": "retrying", "why": "overloaded"}, "round 1: asking the model again (overloaded)"),
        ({"round": 2, "phase": "calling", "calls": []}, "round 2: waiting for its calls"),
        (
            {"round": 2, "phase": "calling", "calls": ["a", "b"], "since": (NOW - timedelta(seconds=4)).isoformat()},
            "round 2: calling a, b, for 4.0 s",
        ),
        ({"round": 2, "phase": "calling", "calls": ["a"], "since": "yesterday"}, "round 2: calling a"),
        ({"round": 2, "phase": "calling", "calls": ["a"], "since": "2026-07-06T11:00:00"}, "round 2: calling a"),
    ],
)
def test_what_a_task_does_is_told_in_words(activity: Any, words: str) -> None:
    assert activity_words(activity, NOW) == words


def test_short_calls_stand_on_a_line_and_long_ones_are_laid_out_and_folded() -> None:
    long = '{"query": "' + "x" * 700 + '"}'
    middle = '{"query": "' + "x" * 200 + '"}'
    shown = shown_round("t", a_round(1, ("a", '{"b": 1}', "{}"), ("a", long, long), ("a", middle, middle)))
    brief, folded, opened = shown.calls
    assert brief.arguments is not None
    assert (brief.arguments.is_brief, brief.arguments.text) == (True, '{"b": 1}')
    assert (folded.arguments_fold, folded.result_fold) == (True, True)
    assert (opened.arguments_fold, opened.result_fold) == (False, False)
    assert opened.arguments is not None
    assert opened.arguments.text.startswith('{\n  "query": "')


def test_a_failed_call_is_marked_by_its_code_with_what_mends_it() -> None:
    (failed,) = shown_round("t", a_round(1, ("a", "{}", "NOT_FOUND: there is no such file"))).calls
    assert (failed.code, failed.message, failed.hint) == ("NOT_FOUND", "there is no such file", "ask for less")
    assert failed.arguments is None
    assert failed.result_fold


def test_what_a_round_used_is_told_with_it() -> None:
    shown = shown_round("t", a_round(3, usage=Usage(5, 6, 7)))
    assert (shown.id, shown.usage, shown.cost, shown.took) == ("round-t-3", Usage(5, 6, 7), "$0.0125", "1.5 s")
    assert shown_round("t", a_round(3, cost=None)).cost == ""
