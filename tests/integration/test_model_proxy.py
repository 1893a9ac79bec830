"""The proxy between a sandbox and its model, over a unix socket, before a provider that is played."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

import aiohttp
import pytest

from config.runner_settings import Api
from config.secret_text import SecretText
from loops.agent.budget import TaskBudget
from loops.agent.prices import Price
from loops.agent.transcript import Usage
from loops.tasks.runners.proxy.meter import Meter
from loops.tasks.runners.proxy.serve import LARGEST, MOST_BARRED, Upstream, model_proxy
from loops.tasks.runners.trace import Spent
from tests.doubles.model_servers import PATHS, Answer, ModelServer, Wire, serving
from tests.integration.running import eventually

KEY = "sk-of-the-provider"
TOKEN = "token-of-the-task"
MODEL = "claude-sonnet-4-6"
APIS: Mapping[Wire, Api] = {"anthropic": "anthropic", "openai": "openai", "responses": "openai"}
SAID = Answer("Fixed.", input=2_000, output=60, cached=1_500)


class Proxied:
    """A proxy, what counts in it, and who asks over it."""

    def __init__(self, session: aiohttp.ClientSession, meter: Meter, model: ModelServer) -> None:
        self.session = session
        self.meter = meter
        self.model = model

    async def ask(self, path: str = "", method: str = "POST", headers=None, **changes):
        path = path or PATHS[self.model.protocol]
        said = [{"role": "user", "content": "Go."}]
        body = {"model": MODEL, "stream": True, "messages": said, "max_tokens": 100}
        if self.model.protocol == "responses":
            body = {"model": MODEL, "stream": True, "input": said, "max_output_tokens": 100}
        shown = {"x-api-key": TOKEN} if headers is None else headers
        async with self.session.request(method, f"http://m{path}", json={**body, **changes}, headers=shown) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def proxied(folder, *answers: Answer, wire: Wire = "anthropic", base_url="", **budget) -> AsyncIterator[Proxied]:
    async with serving(wire, *(answers or (SAID,))) as model:
        upstream = Upstream("claude-code", APIS[wire], MODEL, base_url or model.base_url, SecretText(KEY))
        meter = Meter(lambda _model: Price(Decimal(3), Decimal(15)), lambda pricing: TaskBudget(pricing, **budget))
        socket = folder / "model"
        async with (
            model_proxy(socket, upstream, TOKEN, meter),
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as session,
        ):
            yield Proxied(session, meter, model)


async def spent_in(proxy: Proxied) -> Spent:
    return proxy.meter.spent


@pytest.mark.parametrize("wire", APIS)
async def test_a_request_with_the_token_goes_on_with_the_key_and_is_counted(wire, tmp_path):
    async with proxied(tmp_path, wire=wire) as proxy:
        status, text = await proxy.ask(headers={"Authorization": f"Bearer {TOKEN}", "X-Else": "1"})
        sent = proxy.model.headers[0]
        spent = proxy.meter.spent
    assert status == 200
    assert "Fix" in text
    assert sent.get("x-api-key", sent.get("Authorization", "").removeprefix("Bearer ")) == KEY
    assert TOKEN not in str(sent)
    assert "X-Else" not in sent
    assert (spent.usage, spent.requests) == (Usage(2_000, 60, cache_read=1_500), 1)
    assert spent.cost == Price(Decimal(3), Decimal(15))(spent.usage)


@pytest.mark.parametrize(
    "headers", [{}, {"x-api-key": "another"}, {"Authorization": "Bearer "}, {"x-api-key": KEY}, {"x-api-key": "ü"}]
)
async def test_nothing_passes_without_the_token(headers, tmp_path):
    async with proxied(tmp_path) as proxy:
        status, text = await proxy.ask(headers=headers)
        assert (status, proxy.model.requests) == (401, [])
    assert KEY not in text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/messages"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/files"),
        ("POST", "/v1/responses"),
        ("DELETE", "/v1/messages"),
        ("POST", "/v1/messages/../files"),
        ("POST", "/v1/%6dessages/x"),
        ("POST", "//evil.test/v1/messages"),
    ],
)
async def test_nothing_but_the_calls_of_a_model_passes(method, path, tmp_path):
    async with proxied(tmp_path) as proxy:
        status, _ = await proxy.ask(path, method)
        assert (status, proxy.model.requests) == (404, [])


async def test_what_would_let_the_provider_reach_elsewhere_does_not_pass(tmp_path):
    async with proxied(tmp_path) as proxy:
        status, text = await proxy.ask(tools=[{"type": "web_fetch_20250910", "name": "web_fetch"}])
        assert (status, proxy.model.requests) == (403, [])
    assert "web_fetch" in text


async def test_what_goes_on_is_what_was_looked_into(tmp_path):
    async with proxied(tmp_path) as proxy:
        twice = f'{{"model": "other", "model": "{MODEL}", "messages": []}}'
        async with proxy.session.post("http://m/v1/messages", data=twice, headers={"x-api-key": TOKEN}) as one:
            assert (one.status, proxy.model.requests) == (400, [])
        async with proxy.session.post(
            "http://m/v1/messages", data=b"{}", compress="deflate", headers={"x-api-key": TOKEN}
        ) as packed:
            assert (packed.status, proxy.model.requests) == (415, [])
        assert (await proxy.ask(headers={"x-api-key": TOKEN, "Content-Type": "text/plain"}))[0] == 200
    assert proxy.model.headers[0]["Content-Type"] == "application/json"


async def test_requests_that_are_barred_again_and_again_end_the_task(tmp_path):
    async with proxied(tmp_path) as proxy:
        answers = [(await proxy.ask(model="other"))[0] for _ in range(MOST_BARRED)]
        assert answers == [403] * MOST_BARRED
        assert "works with" in proxy.meter.verdict.result()
        status, text = await proxy.ask()
        assert (status, proxy.model.requests) == (403, [])
    assert "this task is over" in text


async def test_a_body_that_is_too_large_is_barred(tmp_path):
    async with proxied(tmp_path) as proxy:
        body = io.BytesIO(b"x" * (LARGEST + 1))
        async with proxy.session.post("http://m/v1/messages", data=body, headers={"x-api-key": TOKEN}) as one:
            assert one.status == 413
        assert proxy.model.requests == []


async def test_a_used_up_budget_is_a_refusal_and_ends_the_task(tmp_path):
    async with proxied(tmp_path, most_tokens=2_500) as proxy:
        assert (await proxy.ask())[0] == 200
        status, text = await proxy.ask(max_tokens=4_000)
        assert (status, len(proxy.model.requests)) == (402, 1)
        assert json.loads(text)["error"]["message"] == "the budget of this task is used up"
        assert proxy.meter.is_budget
        assert "2500 at most" in proxy.meter.verdict.result()


async def test_requests_at_once_cannot_use_a_budget_twice(tmp_path):
    async with proxied(tmp_path, most_tokens=7_000) as proxy:
        answers = await asyncio.gather(*(proxy.ask(max_tokens=4_000) for _ in range(3)))
        assert sorted(status for status, _ in answers) == [200, 402, 402]


async def test_another_model_of_the_same_name_is_refused_once_the_first_is_known(tmp_path):
    async with proxied(tmp_path) as proxy:
        assert (await proxy.ask())[0] == 200
        status, text = await proxy.ask(model=f"{MODEL}-20260115")
        assert status == 403
        assert "another model" in text
        assert not proxy.meter.verdict.done()


async def test_a_key_that_is_refused_ends_the_task_and_is_not_told(tmp_path):
    refused = Answer(status=401, body={"error": {"message": "invalid x-api-key"}})
    async with proxied(tmp_path, refused) as proxy:
        assert (await proxy.ask())[0] == 401
        assert "api_key" in proxy.meter.verdict.result()
        assert KEY not in proxy.meter.verdict.result()
        assert proxy.meter.spent.usage == Usage()


async def test_an_overloaded_provider_is_told_as_it_is_and_costs_nothing(tmp_path):
    busy = Answer(status=529, body={"error": {"message": "overloaded"}}, headers={"retry-after": "3", "x-else": "1"})
    async with proxied(tmp_path, busy) as proxy:
        async with proxy.session.post(
            "http://m/v1/messages", json={"model": MODEL}, headers={"x-api-key": TOKEN}
        ) as one:
            assert (one.status, one.headers["retry-after"]) == (529, "3")
            assert "x-else" not in one.headers
        assert proxy.meter.spent.usage == Usage()


async def test_a_provider_that_is_not_there_is_an_error_that_can_be_tried_again(tmp_path):
    async with proxied(tmp_path, base_url="http://127.0.0.1:9") as proxy:
        status, text = await proxy.ask()
        assert status == 502
        assert "127.0.0.1" not in text
        assert proxy.meter.spent.usage == Usage()


async def test_an_answer_that_nobody_waits_for_is_broken_off_and_counts(tmp_path):
    async with proxied(tmp_path, replace(SAID, hangs=True)) as proxy:
        asking = asyncio.ensure_future(proxy.ask())
        await proxy.model.begun.wait()
        asking.cancel()
        await asyncio.wait_for(proxy.model.left.wait(), 5)
        spent = await eventually(lambda: spent_in(proxy), lambda spent: spent.usage.total)
        assert spent.requests == 1


async def test_who_hangs_up_while_an_answer_comes_pays_for_what_came(tmp_path):
    long = Answer("word " * 20_000, input=2_000, hangs=True)
    async with proxied(tmp_path, long, most_tokens=30_000) as proxy:
        body = {"model": MODEL, "max_tokens": 64_000, "stream": True, "messages": []}
        async with proxy.session.post("http://m/v1/messages", json=body, headers={"x-api-key": TOKEN}) as one:
            await one.content.readexactly(100_000)
        spent = await eventually(lambda: spent_in(proxy), lambda spent: spent.usage.total)
        assert spent.usage.input == 2_000
        assert spent.usage.output > 20_000
        assert (await proxy.ask(max_tokens=4_000))[0] == 402


async def test_who_hangs_up_before_an_answer_begins_pays_for_all_that_it_may_have_been(tmp_path):
    async with proxied(tmp_path, Answer("late", waits=True), most_tokens=60_000) as proxy:
        asking = asyncio.ensure_future(proxy.ask(stream=False, max_tokens=64_000))
        await proxy.model.begun.wait()
        asking.cancel()
        spent = await eventually(lambda: spent_in(proxy), lambda spent: spent.usage.total)
        assert spent.usage.output == 64_000
        assert (await proxy.ask())[0] == 402


async def test_when_the_task_ends_its_requests_end_too(tmp_path):
    async with serving("anthropic", replace(SAID, hangs=True)) as model:
        upstream = Upstream("claude-code", "anthropic", MODEL, model.base_url, SecretText(KEY))
        meter = Meter(lambda _model: Price(Decimal(3), Decimal(15)), TaskBudget)
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(tmp_path / "model"))) as session:
            proxy = Proxied(session, meter, model)
            async with model_proxy(tmp_path / "model", upstream, TOKEN, meter):
                asking = asyncio.ensure_future(proxy.ask())
                await model.begun.wait()
            await asyncio.wait_for(model.left.wait(), 5)
            with pytest.raises(aiohttp.ClientError):
                await asking
            with pytest.raises(aiohttp.ClientError):
                await proxy.ask()
