"""What the doctor says of the model."""

import pytest

from config.runner_settings import RunnerSettings
from loops.agent.models.choice import Models
from server.checks.model import lacking_check, model_check
from tests.unit.definition.documents import with_function


@pytest.mark.parametrize(
    ("model", "needs_price", "state", "said"),
    [
        ("antropic:x", False, "failed", "LOOPS_MODEL"),
        ("anthropic:claude-sonnet-4-5", False, "failed", "LOOPS_MODEL_API_KEY: is not set"),
        ("ollama:llama3", True, "failed", "LOOPS_TASK_COST: no price is known"),
        ("ollama:llama3", False, "ok", "ollama:llama3 is set"),
    ],
)
def test_the_model_is_held_against_what_a_service_asks(model: str, needs_price: bool, state: str, said: str) -> None:
    base_url = "http://127.0.0.1:1/v1" if model.startswith("ollama:") else None
    check = model_check(Models(model, base_url=base_url), needs_price=needs_price)
    assert (check.state, said in check.message, bool(check.hint)) == (state, True, state == "failed")


def test_loops_whose_tasks_have_no_model_are_counted() -> None:
    task = with_function("template-posthog-create-task", prompt="Look.")
    by_runner = with_function("template-posthog-create-task", prompt="Look.", model="codex")
    silent = with_function("template-log", message="x")
    models = Models(None, runners={"codex": RunnerSettings("codex", None)})  # type: ignore[arg-type]
    told = [lacking_check(models, active) for active in ([silent, by_runner], [task], [task, silent, task])]
    assert [(one.state, one.message) for one in told] == [
        ("ok", "none is set, and no active loop needs one"),
        ("warning", "none is set, and 1 active loop has a task, which fails without"),
        ("warning", "none is set, and 2 active loops have tasks, which fail without"),
    ]
