"""Tasks of a whole service with a provider's model, over the wire, and without any model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from loops.agent.prices import list_price
from loops.agent.transcript import Usage
from tests.contract.test_models import refusal
from tests.doubles.model_servers import Answer, Protocol, serving
from tests.integration.guarded import outbox_of, telling
from tests.integration.running import issue, running
from tests.integration.tasking import REPORT, rounds_of, task_of

pytest.importorskip("pydantic_ai", reason="pydantic-ai, which speaks to providers, is not installed on this machine")
pytest.importorskip("genai_prices", reason="genai-prices, the table of list prices, is not installed")

MODELS: Mapping[Protocol, str] = {"openai": "gpt-4o", "anthropic": "claude-sonnet-4-6"}
LOOKS = Answer("I look.", [("event_read", '{"path": "properties.title"}')], input=2_000, output=40)
ENDS = Answer("", [("finalize", json.dumps({"final_message": REPORT}))], input=2_100, output=60, cached=1_900)


def database(folder: Path) -> str:
    return f"sqlite:///{folder / 'loops.db'}"


@pytest.mark.parametrize("protocol", MODELS)
async def test_a_task_is_worked_on_over_the_wire_and_its_tokens_and_cost_are_counted(protocol, tmp_path):
    name = MODELS[protocol]
    async with serving(protocol, LOOKS, ENDS) as server:
        settings: dict[str, Any] = {
            "model": f"{protocol}:{name}",
            "model_api_key": "key-1",
            "model_base_url": server.base_url,
        }
        async with running(tmp_path, database(tmp_path), **settings) as service:
            flow = await service.create(telling("wire"))
            run_id = await service.started(flow.id, issue("acme/wire", 7))
            row = await service.until(run_id, "completed")
            task = await task_of(service, run_id)
            rounds = await rounds_of(service, task.id)
            (message,) = await outbox_of(service, run_id)

    assert (task.status, task.ending, task.rounds) == ("completed", "done", 2)
    assert (task.input_tokens, task.output_tokens) == (4_100, 100)
    price = list_price(protocol, name)
    costs = [price(Usage(2_000, 40)), price(Usage(2_100, 60, cache_read=1_900))]
    assert task.cost == pytest.approx(float(sum(cost for cost in costs if cost is not None)))
    assert row["cost"] == pytest.approx(task.cost)
    assert "Issue 7" in rounds[0]["results"][0]["text"]
    assert "Issue 7" in json.dumps(server.requests[1]["messages"])
    assert message.message["text"] == REPORT
    sent = server.headers[0]
    assert sent.get("Authorization", sent.get("x-api-key", "")).removeprefix("Bearer ") == "key-1"


@pytest.mark.parametrize("protocol", MODELS)
async def test_a_key_that_is_not_taken_fails_the_task_at_once_and_names_its_setting(protocol, tmp_path):
    refused = Answer(status=401, body=refusal(protocol, "authentication_error", "invalid key key-of-the-tests"))
    async with serving(protocol, refused) as server:
        settings: dict[str, Any] = {
            "model": f"{protocol}:{MODELS[protocol]}",
            "model_api_key": "key-of-the-tests",
            "model_base_url": server.base_url,
        }
        async with running(tmp_path, database(tmp_path), **settings) as service:
            flow = await service.create(telling("refused"))
            run_id = await service.started(flow.id, issue("acme/refused"))
            row = await service.until(run_id, "failed")
            task = await task_of(service, run_id)

    assert (task.status, task.ending, len(server.requests)) == ("failed", "provider_error", 1)
    assert "LOOPS_MODEL_API_KEY" in row["reason"]
    assert "key-of-the-tests" not in f"{row['reason']} {task.reason} {task.result}"


async def test_without_a_model_a_task_fails_at_once_and_names_the_setting(tmp_path):
    async with running(tmp_path, database(tmp_path)) as service:
        flow = await service.create(telling("none"))
        run_id = await service.started(flow.id, issue("acme/none"))
        row = await service.until(run_id, "failed")
        task = await task_of(service, run_id)

    assert (task.status, task.ending, task.rounds) == ("failed", "provider_error", 0)
    assert "LOOPS_MODEL" in row["reason"]
    assert "set provider:name" in row["reason"]
