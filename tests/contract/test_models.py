"""Providers behind the Model port, over what they send on the wire."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from config.secret_text import SecretText
from loops.agent.asking import Patience
from loops.agent.guards import Limits
from loops.agent.interruption import Abort
from loops.agent.model import Model, ModelError, ModelSettings, ToolSpec
from loops.agent.models.opening import ModelAccess, model_access, open_model
from loops.agent.transcript import Assistant, Call, Reply, System, ToolReturn, Transcript, Usage, User
from loops.errors import ConfigError
from tests.doubles.model_servers import Answer, ModelServer, serving
from tests.unit.agent.working import NotingTool, agent, run

pytest.importorskip("pydantic_ai", reason="pydantic-ai, which speaks to providers, is not installed on this machine")

PROTOCOLS = ["openai", "anthropic"]
LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {"at": {"type": "string"}}})
FINALIZE = ToolSpec("finalize", "End.", {"type": "object", "properties": {"final_message": {"type": "string"}}})
CONVERSATION = (System("You work."), User("Do it."))


@pytest.fixture(params=PROTOCOLS)
def protocol(request) -> Any:
    return request.param


@pytest.fixture
async def opened(protocol):
    """Opens a server with answers, and a model that speaks to it."""
    async with AsyncExitStack() as stack:

        async def open_with(*answers: Answer) -> tuple[Model, ModelServer]:
            server = await stack.enter_async_context(serving(protocol, *answers))
            access = ModelAccess(protocol, "m", SecretText("key-1"), server.base_url)
            return await stack.enter_async_context(open_model(access)), server

        yield open_with


async def ask(model: Model, messages=CONVERSATION, tools=(FINALIZE, LOOK), **settings: Any) -> tuple[Reply, list[str]]:
    heard: list[str] = []
    reply = await model.request(messages, tools, ModelSettings(**settings), heard.append)
    return reply, heard


async def failure(model: Model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model)
    return caught.value


async def test_text_comes_in_pieces_and_calls_with_their_arguments(opened):
    model, server = await opened(Answer("I look.", [("look", '{"at": "x"}'), ("look", "{}")]))
    reply, heard = await ask(model)
    assert "".join(heard) == reply.text == "I look."
    assert len(heard) > 1
    assert [(one.name, json.loads(one.arguments)) for one in reply.calls] == [("look", {"at": "x"}), ("look", {})]
    assert reply.finish == "tool_calls"
    assert server.requests[0]["stream"] is True


async def test_usage_counts_all_input_and_says_what_came_from_the_cache(opened):
    model, _ = await opened(Answer("Hello.", input=1_000, output=30, cached=800))
    reply, _ = await ask(model)
    assert reply.usage == Usage(1_000, 30, cache_read=800)
    assert reply.finish == "stop"


async def test_ag_04_a_reply_cut_at_the_output_limit_says_so_with_half_a_call(opened):
    model, _ = await opened(Answer("", [("look", '{"at": "x')], cut=True))
    reply, _ = await ask(model)
    assert (reply.finish, reply.calls[0].arguments) == ("length", '{"at": "x')


async def test_ag_18_a_stream_that_ends_cleanly_but_early_is_a_network_error(opened):
    model, _ = await opened(Answer("Half of the ans", breaks_off=True))
    assert (await failure(model)).kind == "network"


async def test_ag_18_an_early_end_is_tried_again_and_never_taken_for_an_answer(opened):
    done = Answer("", [("finalize", '{"final_message": "Whole."}')])
    model, server = await opened(Answer("Half of the ans", breaks_off=True), done)
    result = await run(agent(model))
    assert (result.ending, result.message, len(server.requests)) == ("done", "Whole.", 2)


def refusal(protocol: str, kind: str, message: str) -> dict[str, Any]:
    error = {"type": kind, "code": kind, "message": message}
    return {"error": error} if protocol == "openai" else {"type": "error", "error": error}


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (401, "authentication_error", "no such key", "auth"),
        (429, "rate_limit_error", "slow down", "rate_limit"),
        (500, "api_error", "oops", "server"),
        (503, "overloaded_error", "busy", "overloaded"),
        (400, "invalid_request_error", "a field is wrong", "refused"),
        (404, "not_found_error", "no such model", "refused"),
    ],
)
async def test_a_refusal_says_what_another_try_would_come_to(opened, protocol, status, kind, message, expected):
    body = refusal(protocol, kind, message)
    model, server = await opened(Answer(status=status, body=body))
    error = await failure(model)
    assert (error.kind, error.status, len(server.requests)) == (expected, status, 1)
    assert message in error.message
    assert "key-1" not in error.message


async def test_a_conversation_that_does_not_fit_is_told_apart(opened, protocol):
    kind = "context_length_exceeded" if protocol == "openai" else "invalid_request_error"
    words = "maximum context length is 100" if protocol == "openai" else "prompt is too long: 300000 tokens > 200000"
    model, _ = await opened(Answer(status=400, body=refusal(protocol, kind, words)))
    assert (await failure(model)).kind == "context_overflow"


async def test_the_wait_that_a_provider_asks_for_is_kept_to(opened, protocol):
    busy = Answer(status=429, body=refusal(protocol, "rate_limit_error", "slow"), headers={"Retry-After": "7"})
    done = Answer("", [("finalize", '{"final_message": "Done."}')])
    model, server = await opened(busy, busy, done)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    result = await run(agent(model, patience=Patience(sleep=sleep)))
    assert (result.ending, waits, len(server.requests)) == ("done", [7.0, 7.0], 3)


async def test_a_wait_that_the_clock_does_not_allow_is_not_begun(opened, protocol):
    busy = Answer(status=429, body=refusal(protocol, "rate_limit_error", "slow"), headers={"Retry-After": "900"})
    model, server = await opened(busy)
    result = await run(agent(model, limits=Limits(wall_clock=60.0)))
    assert (result.ending, len(server.requests)) == ("provider_error", 1)
    assert "another try would be in 900 s" in result.reason


async def test_a_server_that_is_not_there_is_a_network_error(protocol):
    async with open_model(ModelAccess(protocol, "m", SecretText("k"), "http://127.0.0.1:9/v1")) as model:
        assert (await failure(model)).kind == "network"


async def test_ag_12_a_cancelled_request_is_closed_towards_the_server(opened):
    model, server = await opened(Answer("Thinking about", hangs=True))
    abort = Abort()
    working = asyncio.ensure_future(run(agent(model), abort=abort))
    await asyncio.wait_for(server.begun.wait(), 20)
    abort.ask()
    result = await asyncio.wait_for(working, 5)
    assert (result.ending, result.message) == ("cancelled", "")
    await asyncio.wait_for(server.left.wait(), 1)


async def test_a_forced_finalize_names_the_tool_and_keeps_the_others(opened, protocol):
    model, server = await opened(Answer("", [("finalize", "{}")]))
    await ask(model, force="finalize", effort="high", cache_key="task-1")
    (request,) = server.requests
    tools = [one["function"]["name"] if protocol == "openai" else one["name"] for one in request["tools"]]
    assert sorted(tools) == ["finalize", "look"]
    chosen = request["tool_choice"]
    assert (chosen["function"]["name"] if protocol == "openai" else chosen["name"]) == "finalize"


async def test_what_went_before_is_sent_back_in_the_provider_s_form(opened, protocol):
    model, server = await opened(Answer("Fine.", [("finalize", '{"final_message": "x"}')]))
    bad = Call("call_b", "look", '"str"')
    before = (
        *CONVERSATION,
        Assistant(" ", (Call("call_a", "look", '{"at": "x"}'), bad)),
        ToolReturn("call_a", "look", '{"ok": true}'),
        ToolReturn("call_b", "look", '{"ok": false}'),
        Assistant("   "),
        User("Go on."),
    )
    await ask(model, before)
    sent = json.dumps(server.requests[0]["messages"])
    assert sent.count("call_a") == sent.count("call_b") == 2
    assert "Go on." in sent
    assert "You work." in json.dumps(server.requests[0])


async def test_signed_thoughts_go_back_unchanged():
    thinking = Answer("I look.", [("look", "{}")], thought="Where to look?")
    done = Answer("", [("finalize", '{"final_message": "Seen."}')])
    async with serving("anthropic", thinking, done) as server:
        access = ModelAccess("anthropic", "m", SecretText("k"), server.base_url)
        async with open_model(access) as model:
            result = await run(agent(model, [NotingTool("look")]))
    assert result.ending == "done"
    assert result.transcript.rounds[0].reply.thought == "Where to look?"
    (sent,) = [one for one in server.requests[1]["messages"] if one["role"] == "assistant"]
    assert sent["content"][0] == {"type": "thinking", "thinking": "Where to look?", "signature": "c2lnbmVk"}
    stored = Transcript.from_json(json.loads(json.dumps(result.transcript.as_json())))
    assert stored == result.transcript


async def test_a_whole_task_runs_over_the_wire(opened):
    looks = Answer("I look.", [("look", '{"at": "x"}')], input=200, output=10)
    done = Answer("", [("finalize", '{"final_message": "Seen it."}')], input=300, output=20, cached=150)
    model, server = await opened(looks, done)
    result = await run(agent(model, [NotingTool("look", dict)]))
    assert (result.ending, result.message, result.rounds) == ("done", "Seen it.", 2)
    assert result.usage == Usage(500, 30, cache_read=150)
    assert '\\"at\\": \\"x\\"' in json.dumps(server.requests[1]["messages"])


def test_what_can_reach_no_model_is_refused_with_its_mend():
    key = SecretText("k")
    for choice, given, words in (
        ("gpt", key, "names no model"),
        ("mine:m", key, "LOOPS_MODEL_BASE_URL"),
        ("openai:m", None, "LOOPS_MODEL_API_KEY"),
    ):
        with pytest.raises(ConfigError, match=words):
            model_access(choice, given)
    assert model_access("ollama:m", None, "http://127.0.0.1:1/v1").speaks == "openai"
