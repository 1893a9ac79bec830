"""What a task's step names, held against what is configured."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from config.runner_settings import RunnerSettings
from loops.agent.models.choice import Models
from loops.agent.prices import Price
from loops.tasks.allowance import Allowance, Allowances, Limits
from server.checks.tasks import TaskLook
from tests.unit.definition.documents import parsed, with_function

PLACE = "actions[1].config.inputs.model"
MONEY = Allowances(workflow=Allowance(cost=Decimal(5)))
BOTH = Allowances(workflow=Allowance(cost=Decimal(5)), task=Allowance(tokens=1_000))


async def look(models: Models, spending: Allowances, monkeypatch: pytest.MonkeyPatch, **inputs: Any) -> Any:
    monkeypatch.setattr("server.checks.tasks.named_faults", lambda *_: ((), ()))
    monkeypatch.setattr("server.checks.tasks.limits_of_project", lambda _c, _p, limits: limits)

    class Reader:
        async def read(self, fn: Any) -> Any:
            return fn(None)

    document = with_function("template-posthog-create-task", prompt="Look.", **inputs)
    return await TaskLook(Reader(), models, Limits(spending=spending))("default", parsed(document))


@pytest.mark.parametrize(
    ("models", "spending", "model", "fault"),
    [
        (Models("anthropic:claude-sonnet-4-5"), MONEY, None, ""),
        (Models("anthropic:claude-sonnet-4-5"), Allowances(), "openai:gpt-5", "is of a provider that is not set up"),
        (Models("ollama:llama3"), MONEY, None, "no price is known for ollama:llama3, and there is a limit in money"),
        (Models("ollama:llama3"), BOTH, None, ""),
        (Models("ollama:llama3", price=Price(Decimal(1), Decimal(2))), MONEY, "other", ""),
        (Models("scripted:demo"), MONEY, None, "no price is known for scripted:demo"),
    ],
)
async def test_a_model_that_could_not_be_held_or_reached_is_refused_when_saved(
    models, spending, model, fault, monkeypatch
):
    faults, warnings = await look(models, spending, monkeypatch, **({"model": model} if model else {}))
    assert [one.path for one in faults] == ([PLACE] if fault else [])
    assert all(fault in one.message and one.hint for one in faults)
    assert warnings == ()


async def test_a_task_on_a_service_without_a_model_is_a_warning_unless_a_runner_works_on_it(monkeypatch):
    faults, (warned,) = await look(Models(None), MONEY, monkeypatch, model="anthropic:x")
    assert (faults, warned.path, warned.message) == (
        (), PLACE, "this service has no model, so the task will fail"
    )  # fmt: skip
    runners = {"claude-code": RunnerSettings("claude-code", Path("/usr/bin/claude"))}
    assert await look(Models(None, runners=runners), Allowances(), monkeypatch, model="claude-code:sonnet") == ((), ())


async def test_a_model_that_its_provider_is_not_known_to_have_is_a_warning(monkeypatch):
    faults, (warned,) = await look(Models("openai:gpt-5"), Allowances(), monkeypatch, model="gpt-5-turbo-nothing")
    assert (faults, warned.path) == ((), PLACE)
    assert "not known to have a model 'gpt-5-turbo-nothing'" in warned.message
    at_home = Models("openai:gpt-5", base_url="http://127.0.0.1:1/v1")
    assert await look(at_home, Allowances(), monkeypatch, model="mine") == ((), ())


async def test_a_command_is_given_no_connectors_and_no_skills_of_the_project(monkeypatch):
    models = Models("openai:gpt-5", runners={"claude-code": RunnerSettings("claude-code", Path("/usr/bin/claude"))})
    given = {"repository": "acme/widgets", "connectors": ["7"], "skills": ["triage"]}
    faults, _ = await look(models, Allowances(), monkeypatch, model="claude-code:sonnet", **given)
    assert [one.path for one in faults] == [PLACE.replace("model", "connectors")]
    assert "claude-code:sonnet is a command, which has no connectors" in faults[0].message
    faults, warnings = await look(
        models, Allowances(), monkeypatch, model="claude-code:sonnet", **{**given, "connectors": []}
    )
    assert faults == ()
    assert [one.path for one in warnings] == [PLACE.replace("model", "skills")]
    assert await look(models, Allowances(), monkeypatch, **given) == ((), ())
