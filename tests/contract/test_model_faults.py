"""What goes wrong at a provider, on the wire, and what an agent makes of it: both protocols."""

from contextlib import AsyncExitStack
from decimal import Decimal
from typing import Any

import pytest

from config.secret_text import SecretText
from loops.agent.elision import ELIDED
from loops.agent.model import Model
from loops.agent.models.opening import ModelAccess, open_model
from loops.agent.prices import list_price
from loops.agent.result import AgentResult
from tests.contract.test_models import PROTOCOLS, refusal
from tests.doubles.model_servers import Answer, ModelServer, serving
from tests.unit.agent.working import NotingTool, agent, run

pytest.importorskip("pydantic_ai", reason="pydantic-ai, which speaks to providers, is not installed on this machine")

DONE = Answer("", [("finalize", '{"final_message": "Done."}')])
LOOKS = Answer("I look.", [("look", '{"at": "x"}')])
MODELS = {"openai": "gpt-4o", "anthropic": "claude-sonnet-4-6"}


@pytest.fixture(params=PROTOCOLS)
def protocol(request) -> Any:
    return request.param


@pytest.fixture
async def opened(protocol):
    """Opens a server with answers, and a model that speaks to it."""
    async with AsyncExitStack() as stack:

        async def open_with(*answers: Answer) -> tuple[Model, ModelServer]:
            server = await stack.enter_async_context(serving(protocol, *answers))
            access = ModelAccess(protocol, MODELS[protocol], SecretText("key-1"), server.base_url)
            return await stack.enter_async_context(open_model(access)), server

        yield open_with


async def worked(model: Model, **more: Any) -> AgentResult:
    return await run(agent(model, [NotingTool("look", lambda _: "x" * 5_000)], **more))


def error_event(protocol: str, kind: str, message: str) -> dict[str, Any]:
    return {**refusal(protocol, kind, message), **({"type": "error"} if protocol == "anthropic" else {})}


QUOTAS = {
    "openai": [(429, "insufficient_quota", "You exceeded your current quota"), (402, "billing", "Payment required")],
    "anthropic": [
        (402, "billing_error", "Payment required"),
        (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    ],
}


async def test_an_exhausted_quota_is_no_rate_limit_and_not_tried_again(opened, protocol):
    for status, kind, message in QUOTAS[protocol]:
        model, server = await opened(Answer(status=status, body=refusal(protocol, kind, message)))
        result = await worked(model)
        assert (result.ending, len(server.requests)) == ("provider_error", 1)
        assert message in result.reason


async def test_a_key_that_is_not_taken_is_not_tried_again_and_the_setting_is_named(opened, protocol):
    for status, kind in ((401, "authentication_error"), (403, "permission_error")):
        model, server = await opened(Answer(status=status, body=refusal(protocol, kind, "invalid x-api-key")))
        result = await worked(model)
        assert (result.ending, len(server.requests)) == ("provider_error", 1)
        assert "LOOPS_MODEL_API_KEY" in result.reason
        assert "key-1" not in result.reason


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529])
async def test_what_a_provider_mends_by_itself_is_tried_again(opened, protocol, status):
    broken = Answer(status=status, body=refusal(protocol, "overloaded_error", "busy"))
    model, server = await opened(broken, broken, DONE)
    result = await worked(model)
    assert (result.ending, len(server.requests), result.transcript.rounds[0].requests) == ("done", 3, 3)


async def test_a_provider_that_stays_broken_is_asked_a_bounded_number_of_times(opened, protocol):
    model, server = await opened(Answer(status=529, body=refusal(protocol, "overloaded_error", "busy")))
    result = await worked(model)
    assert (result.ending, len(server.requests)) == ("provider_error", 5)


async def test_a_conversation_that_does_not_fit_is_shortened_once_and_then_fails_typed(opened, protocol):
    kind = "context_length_exceeded" if protocol == "openai" else "invalid_request_error"
    words = "maximum context length is 100" if protocol == "openai" else "prompt is too long: 300000 tokens > 200000"
    model, server = await opened(LOOKS, Answer(status=400, body=refusal(protocol, kind, words)))
    result = await worked(model)
    assert (result.ending, result.message, len(server.requests)) == ("provider_error", "I look.", 3)
    assert words in result.reason
    long, short = (str(request["messages"]) for request in server.requests[1:])
    assert ("x" * 5_000 in long, "x" * 5_000 in short) == (True, False)
    assert ELIDED.split('"')[3] in short


@pytest.mark.parametrize("how", ["breaks_off", "drops"])
async def test_ag_18_a_stream_that_never_ends_well_is_never_complete(opened, how):
    half: dict[str, Any] = {how: True}
    model, server = await opened(Answer("All is done, and this is half of", **half))
    result = await worked(model)
    assert (result.ending, len(server.requests)) == ("provider_error", 5)
    assert result.fallback


@pytest.mark.parametrize("how", ["breaks_off", "drops"])
async def test_ag_18_a_stream_that_ends_before_it_says_anything_is_tried_again(opened, how):
    empty: dict[str, Any] = {how: True}
    model, server = await opened(Answer("", **empty), DONE)
    result = await worked(model)
    assert (result.ending, len(server.requests)) == ("done", 2)


async def test_ag_02_an_error_inside_a_stream_that_began_well_is_no_answer(opened, protocol):
    fails = error_event(protocol, "overloaded_error", "Overloaded")
    model, server = await opened(Answer("All is done.", fails=fails), DONE)
    result = await worked(model)
    assert (result.ending, result.message, len(server.requests)) == ("done", "Done.", 2)


async def test_cached_input_is_counted_once_and_priced_as_cached(opened, protocol):
    model, _ = await opened(Answer("", DONE.calls, input=1_000_000, output=1_000, cached=900_000))
    plain, _ = await opened(Answer("", DONE.calls, input=1_000_000, output=1_000))
    price = list_price(protocol, MODELS[protocol])
    cheap, dear = await worked(model, pricing=price), await worked(plain, pricing=price)
    assert (cheap.usage.input, cheap.usage.cache_read, cheap.usage.output) == (1_000_000, 900_000, 1_000)
    assert cheap.cost is not None
    assert dear.cost is not None
    assert Decimal(0) < cheap.cost < dear.cost


async def test_a_call_whose_arguments_are_no_json_comes_back_to_the_model(opened, protocol):
    model, server = await opened(Answer("", [("look", '{"at": ')]), DONE)
    result = await worked(model)
    assert (result.ending, result.transcript.rounds[0].results[0].code) == ("done", "BAD_JSON")
    assert "BAD_JSON" in str(server.requests[1]["messages"])
