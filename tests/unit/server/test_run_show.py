from typing import Any

import pytest

from server.cli.run_show import tell_run
from server.rounds import round_lines

AT = "2026-07-06T12:00:00+00:00"
RUN: dict[str, Any] = {
    "id": "r", "workflow": "w", "workflow_name": "Triage", "version": 1, "source": "github",
    "what": "issues opened #42",
    "delivery": None, "status": "waiting", "reason": "", "waiting_for": "message", "waiting_until": AT, "cost": 0.0,
    "started_at": AT, "finished_at": None, "steps": [], "tasks": [], "messages": [],
}  # fmt: skip
MESSAGE: dict[str, Any] = {
    "id": "m", "kind": "slack", "to": "C1", "status": "retry", "reason": "Slack does not answer", "mend": "",
    "due_at": AT,
}  # fmt: skip
STEP: dict[str, Any] = {
    "id": "task", "name": "Look", "type": "function", "status": "failed", "log": [], "started_at": AT,
    "finished_at": AT, "result": None, "error": {"message": "The task failed", "hint": "set LOOPS_MODEL"},
}  # fmt: skip
TASK: dict[str, Any] = {
    "id": "t", "title": "Look", "status": "running", "model": "scripted:demo", "rounds": 1, "input_tokens": 1,
    "output_tokens": 2, "cost": 0.5, "ending": "", "reason": "", "activity": {"round": 2}, "finished_at": None,
    "thread": None, "outputs": [],
    "trace": {"rounds": [], "result": None},
}  # fmt: skip


def test_a_run_that_waits_for_its_message_says_why_that_is_not_sent_yet(capsys: pytest.CaptureFixture[str]) -> None:
    sent = {**MESSAGE, "id": "m0", "status": "sent", "reason": "", "due_at": None}
    tell_run({**RUN, "messages": [sent, MESSAGE]})
    status = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("status"))
    assert "waits for message until" in status
    assert "its message is in retry: Slack does not answer, next attempt 2026-" in status
    assert "sent" not in status.replace("sent yet", "")


def test_a_run_that_waits_for_its_task_says_how_that_stands(capsys: pytest.CaptureFixture[str]) -> None:
    tell_run({**RUN, "waiting_for": "task", "tasks": [TASK]})
    told = capsys.readouterr().out
    assert "; its task is running, round 2" in told
    assert "cost      $0.5000, at the price of LOOPS_PRICE" in told


def test_a_task_in_a_thread_tells_how_it_stands_there(capsys: pytest.CaptureFixture[str]) -> None:
    thread = {
        "channel": "C1\x1b[2J",
        "status": "closed",
        "turn": 2,
        "listens_until": None,
        "reason": "nobody said more",
    }
    tell_run({**RUN, "waiting_for": None, "tasks": [{**TASK, "thread": thread}]})
    told = capsys.readouterr().out
    assert "Slack thread in C1" in told
    assert "closed, turn 2: nobody said more" in told
    assert "\x1b" not in told


def test_a_failed_step_is_shown_with_what_mends_it(capsys: pytest.CaptureFixture[str]) -> None:
    tell_run({**RUN, "status": "failed", "waiting_for": None, "steps": [STEP]})
    assert "error: The task failed\n  what mends it: set LOOPS_MODEL\n" in capsys.readouterr().out


def test_a_step_that_a_full_quota_skipped_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    result = {"status": "skipped", "ending": "skipped", "reason": "The quota is full."}
    skipped = {**STEP, "status": "completed", "error": None, "result": result}
    tell_run({**RUN, "status": "completed", "waiting_for": None, "steps": [skipped]})
    told = capsys.readouterr().out
    assert "Look  function  skipped" in told
    assert "skipped: The quota is full." in told


def test_a_run_that_waits_for_its_turn_names_the_run_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    tell_run({**RUN, "waiting_for": "turn", "waiting_until": None, "waiting_run": "r0"})
    told = capsys.readouterr().out
    assert "status    waiting, waits for its turn: run r0 of this workflow is not over\n" in told


@pytest.mark.parametrize(
    ("model", "tokens", "words"),
    [
        ("command:own", 0, "unknown: this runner has no api"),
        ("claude-code:new", 9, "`price` of its runner"),
        ("openai:new", 9, "LOOPS_PRICE sets one"),
    ],
)
def test_a_cost_that_nobody_knows_says_what_would_tell_it(
    capsys: pytest.CaptureFixture[str], model: str, tokens: int, words: str
) -> None:
    task = {**TASK, "model": model, "cost": None, "input_tokens": tokens, "output_tokens": 0}
    tell_run({**RUN, "waiting_for": None, "tasks": [task]})
    told = capsys.readouterr().out
    assert words in next(line for line in told.splitlines() if line.startswith("cost"))
    assert (f"{model}  1       unknown    unknown" in told) is (tokens == 0)


def test_what_a_task_asked_to_have_written_is_told_and_its_patch_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    output = {
        "number": 1, "kind": "pull_request", "repository": "acme/shop", "status": "refused",
        "reason": "protected: .github",
        "url": None, "body": {"title": "Mend it"}, "patch": "diff --git\n+one\x1b[2J\n", "patch_cut": False,
        "task": "t", "can_send": True,
        "answers": [{"did": "again", "was": "staged", "by": "Ada\x1b[2J", "at": "2026-11-30T12:00:00+00:00"}],
    }  # fmt: skip
    whole = {**RUN, "waiting_for": None, "tasks": [{**TASK, "outputs": [output]}]}
    tell_run(whole)
    brief = capsys.readouterr().out
    assert "pull request in acme/shop: refused, protected: .github: Mend it" in brief
    assert "its patch: loops run-show --patch, or loops output-patch t 1" in brief
    assert "Ada\\x1b[2J had it sent at 2026-11-30 12:00:00, when it was staged" in brief
    assert "have it sent: loops output-send t 1" in brief
    assert "loops output-settle" not in brief
    tell_run(whole, patches=True)
    told = capsys.readouterr().out
    assert "    +one\\x1b[2J\n" in told
    assert "\x1b" not in told


def test_a_round_is_told_line_by_line_and_cannot_act_on_a_terminal() -> None:
    reply = {
        "text": "first\x1b[31m\nsecond",
        "usage": {"input": 1, "output": 2},
        "calls": [
            {"id": "a", "name": "x\x07", "arguments": "{" + "1" * 100},
            {"id": "b", "name": "y", "arguments": ""},
        ],
    }
    one = {"number": 3, "reply": reply, "cost": None, "results": [{"call_id": "a", "code": "BAD_JSON"}]}
    assert list(round_lines(one)) == [
        "round 3  first\\x1b[31m",
        "  second  [1 tokens in, 2 out]",
        "  x\\x07({" + "1" * 59 + " …) -> BAD_JSON",
        "  y() -> no result yet",
    ]
