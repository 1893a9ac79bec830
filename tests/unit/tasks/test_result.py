from typing import get_args

import pytest

from loops.agent.guards import Ending
from loops.tasks.result import MOST_MESSAGE_BYTES, cut_message, skipped, task_result

STATUSES = {
    "done": "completed",
    "noop": "completed",
    "max_rounds": "incomplete",
    "timeout": "incomplete",
    "budget": "incomplete",
    "stuck": "incomplete",
    "no_tool": "incomplete",
    "refused": "incomplete",
    "invalid_output": "failed",
    "tool_error": "failed",
    "provider_error": "failed",
    "runner_error": "failed",
    "not_equipped": "failed",
    "internal_error": "failed",
    "interrupted": "failed",
    "cancelled": "cancelled",
}


@pytest.mark.parametrize("ending", get_args(Ending))
def test_every_ending_of_an_agent_has_its_status_and_only_an_end_of_its_own_is_a_success(ending):
    result = task_result(ending, "why", "text", {})
    assert result.status == STATUSES[ending]
    assert result.failed is (ending not in ("done", "noop"))


def test_a_report_is_delivered_as_it_is():
    result = task_result("done", "the agent finalized", "Fine.", {"severity": "low"}, pr_urls=["https://x/1"])
    assert result.as_json("t1") == {
        "id": "t1",
        "status": "completed",
        "ending": "done",
        "reason": "the agent finalized",
        "final_message": "Fine.",
        "output": {"severity": "low"},
        "pr_urls": ["https://x/1"],
    }


def test_what_did_not_end_by_itself_says_so_before_its_last_text():
    result = task_result("max_rounds", "the limit of 3 rounds is reached", "Half.", {"a": 1})
    assert result.final_message == "This task is incomplete: the limit of 3 rounds is reached.\n\nHalf."
    assert result.output == {"a": 1}
    assert task_result("no_tool", "x", " ", {}).final_message == "This task is incomplete: x."


def test_a_reason_reads_as_one_sentence():
    result = task_result("invalid_output", "the model made no usable call.", "", {})
    assert result.final_message == "This task failed: the model made no usable call."


def test_a_cancelled_task_tells_nothing():
    assert task_result("cancelled", "cancelled on request", "Half.", {"a": 1}).final_message == ""
    assert task_result("cancelled", "cancelled on request", "Half.", {"a": 1}).output == {}


def test_a_task_that_a_quota_refused_is_no_failure_and_tells_the_reason():
    result = skipped("The limit is reached.")
    assert (result.status, result.final_message, result.failed) == ("skipped", "The limit is reached.", False)


@pytest.mark.parametrize("letter", ["x", "ü", "🐈"])
def test_a_long_message_is_cut_in_whole_characters_with_a_marker_and_a_link(letter):
    text = letter * 70_000
    cut = cut_message(text, "https://loops.test/tasks/1")
    assert len(cut.encode()) <= MOST_MESSAGE_BYTES
    assert cut.endswith(f"[truncated: {len(text.encode())} bytes; the whole text: https://loops.test/tasks/1]")
    assert set(cut.split("\n")[0]) == {letter}
    assert cut_message("x" * MOST_MESSAGE_BYTES) == "x" * MOST_MESSAGE_BYTES
