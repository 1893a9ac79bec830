"""What `loops explain` prints of an explanation."""

from typing import Any

import pytest

from server.cli.deliveries import tell_explanation

DELIVERY = {
    "id": "d1", "key": "k", "what": "capture", "source": "posthog", "received_at": "2026-12-01T10:00:00+00:00",
    "status": "dispatched", "reason": "", "runs": 1,
}  # fmt: skip


def verdict(loop: str, stage: str, event: str = "signed_up", who: str = "ada", **more: Any) -> dict[str, Any]:
    named = {"workflow": loop, "workflow_name": loop, "version": 1, "event": event, "event_uuid": who, "run": None}
    told = {"stage": stage, "passed": stage == "start", "reason": f"why of {loop}", "compared": []}
    return {**named, **told, "distinct_id": who, "recomputed": stage == "trigger", **more}


def printed(capsys: pytest.CaptureFixture[str], *verdicts: dict[str, Any], fold: bool = True) -> str:
    tell_explanation({"delivery": DELIVERY, "verdicts": verdicts, "note": ""}, fold=fold)
    return capsys.readouterr().out.partition("started\n")[2]


def test_verdicts_stand_below_their_event_where_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, verdict("Greet", "start"), verdict("Greet", "filters", who="bob"))
    heads = [line for line in shown.splitlines() if line.startswith("==")]
    assert heads == ["== signed_up (ada)  ada", "== signed_up (bob)  bob"]
    assert "==" not in printed(capsys, verdict("Greet", "start"), verdict("Count", "filters"))


def test_an_operator_that_takes_no_value_shows_none(capsys: pytest.CaptureFixture[str]) -> None:
    one = {"key": "is_thread_reply", "operator": "is_set", "expected": None, "actual": False, "passed": True}
    assert "    ok  is_thread_reply is_set; it is false\n" in printed(
        capsys, verdict("Answer", "filters", compared=[one])
    )


def test_loops_that_listen_to_something_else_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    others = [verdict(f"Loop {number}", "trigger") for number in range(7)]
    named = "Loop 0, Loop 1, Loop 2, Loop 3, Loop 4 and 2 more"
    shown = printed(capsys, verdict("Greet", "start"), *others)
    assert f"\n7 others listen to something else: {named}\n" in shown
    assert "why of Loop" not in shown
    assert printed(capsys, others[0]) == "\n1 loop listens to something else: Loop 0\n"
    assert "why of Loop 0" in printed(capsys, others[0], fold=False)
