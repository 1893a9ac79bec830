from types import SimpleNamespace
from typing import Any, get_args

import pytest

from loops.agent.guards import Ending
from loops.runs.state import Failed
from loops.runs.templates.create_task import came

FAILING = sorted({*get_args(Ending), "interrupted"} - {"done", "noop", "cancelled"})


def _ended(ending: str, status: str = "failed") -> Any:
    return SimpleNamespace(over=True, status=status, ending=ending, reason="why", result={})


@pytest.mark.parametrize("ending", FAILING)
def test_every_way_in_which_a_task_may_fail_tells_what_mends_it(ending: str) -> None:
    failed = came(_ended(ending))
    assert isinstance(failed, Failed)
    assert failed.code == f"task.{ending}"
    assert failed.hint
    assert "rounds are on" not in failed.hint


def test_what_is_known_to_mend_a_fault_stands_in_place_of_the_usual_mend() -> None:
    ended = _ended("not_equipped")
    ended.result = {"mend": "install bubblewrap"}
    failed = came(ended)
    assert isinstance(failed, Failed)
    assert failed.hint == "install bubblewrap"


@pytest.mark.parametrize(
    ("ending", "setting"),
    [
        ("timeout", "LOOPS_TASK_SECONDS"),
        ("max_rounds", "LOOPS_TASK_ROUNDS"),
        ("budget", "LOOPS_TASK_TOKENS or LOOPS_TASK_COST"),
        ("provider_error", "LOOPS_MODEL_API_KEY"),
    ],
)
def test_the_guard_that_ended_a_task_is_named_by_its_setting(ending: str, setting: str) -> None:
    failed = came(_ended(ending, "incomplete"))
    assert isinstance(failed, Failed)
    assert setting in failed.hint
