import json

import pytest

from loops.agent.transcript import Usage
from loops.tasks.runners.proxy.asked import Asked, Barred, asked
from loops.tasks.runners.proxy.counting import AnswerCounter
from tests.doubles.model_servers import Answer, stream_of

MOST = Usage(500, 4_096, estimated=True)


def passes(request, path="/v1/messages", model="claude-sonnet-4-6"):
    return asked(path, json.dumps(request).encode(), model)


def request(**changes):
    return {"model": "claude-sonnet-4-6", "max_tokens": 32_000, "messages": [], **changes}


def test_what_a_request_may_come_to_is_its_size_and_a_part_of_the_answer_that_it_allows():
    one = passes(request(messages=[{"role": "user", "content": "a" * 3_500}]))
    assert isinstance(one, Asked)
    assert one.most.input > 1_000
    assert one.most.output == 4_096
    short = passes(request(max_tokens=50))
    assert isinstance(short, Asked)
    assert short.most.output == 50


def test_counting_tokens_costs_nothing():
    assert passes(request(), "/v1/messages/count_tokens") == Asked("claude-sonnet-4-6", Usage())


def test_a_short_name_stands_for_the_whole_one_that_its_agent_makes_of_it():
    one = passes(request(), model="sonnet")
    assert isinstance(one, Asked)
    assert one.model == "claude-sonnet-4-6"


IMAGE = {"type": "image", "source": {"type": "url", "url": "https://evil.test/?q=secret"}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "claude-opus-5"}, "works with claude-sonnet-4-6"),
        ({"model": None}, "works with"),
        ({"mcp_servers": [{"url": "https://evil.test"}]}, "mcp_servers"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search"),
        ({"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}, "web_fetch"),
        ({"tools": [{"type": "mcp", "server_url": "https://evil.test"}]}, "mcp"),
        ({"tools": [{"type": "namespace", "tools": [{"type": "code_interpreter"}]}]}, "code_interpreter"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "by its address"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [IMAGE]}]}]}, "by its address"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://e.test"}}]}]},
            "by its address",
        ),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://e.test"}]}]}, "by its"),
        ({"input": [{"type": "function_call_output", "output": [{"type": "input_file", "file_url": "x"}]}]}, "by its"),
    ],
)
def test_a_request_that_reaches_elsewhere_or_another_model_is_barred(changes, words):
    one = passes(request(**changes))
    assert isinstance(one, Barred)
    assert words in one.reason


NESTED = b'{"model": "m", "messages": ' + b'[{"content": ' * 20 + b"1" + b"}]" * 20 + b"}"


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"[]", 400), (b"\xff", 400), (b"[" * 100_000, 400), (b"[" + b"[]," * 600_000 + b"1]", 413)],
    ids=["empty", "list", "bytes", "deep", "many"],
)
def test_what_is_no_request_is_barred(body, status):
    one = asked("/v1/messages", body, "m")
    assert isinstance(one, Barred)
    assert one.status == status


def test_a_request_that_is_nested_too_deep_to_be_looked_into_does_not_pass():
    assert isinstance(asked("/v1/messages", NESTED, "m"), Barred)


def test_addresses_in_texts_and_in_arguments_of_calls_are_no_matter():
    picture = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
    call = {"type": "tool_use", "id": "t", "name": "fetch", "input": {"url": "https://a.test", "source": {"url": "b"}}}
    messages = [
        {"role": "user", "content": "see https://a.test"},
        {"role": "assistant", "content": [call, picture]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}]},
    ]
    tools = [{"name": "Bash", "input_schema": {}}, {"type": "function", "name": "web_search"}]
    assert isinstance(passes(request(messages=messages, tools=tools)), Asked)


@pytest.mark.parametrize("protocol", ["anthropic", "openai", "responses"])
@pytest.mark.parametrize("size", [7, 100_000])
def test_a_stream_is_counted_however_it_is_cut(protocol, size):
    answer = Answer("Fixed.", [("Read", "{}")], input=2_000, output=60, cached=1_500)
    whole = b"".join(stream_of(protocol, answer))
    counter = AnswerCounter(is_stream=True)
    for start in range(0, len(whole), size):
        counter.add(whole[start : start + size])
    assert counter.usage(MOST) == Usage(2_000, 60, cache_read=1_500)


def test_a_stream_that_breaks_off_is_counted_by_what_it_is_known_to_have_used():
    counter = AnswerCounter(is_stream=True)
    counter.add(b"".join(stream_of("openai", Answer("Fixed it all.", breaks_off=True))))
    used = counter.usage(MOST)
    assert (used.input, used.estimated) == (500, True)
    assert used.output > 0


def test_a_document_is_counted_too():
    counter = AnswerCounter(is_stream=False)
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 2}
    counter.add(json.dumps({"content": [], "usage": usage}).encode())
    assert counter.usage(MOST) == Usage(18, 2, 5, 3)


@pytest.mark.parametrize("usage", [None, [], {"input_tokens": -1}, {"input_tokens": "many"}, {"output_tokens": True}])
def test_a_count_that_is_none_is_estimated(usage):
    counter = AnswerCounter(is_stream=False)
    counter.add(json.dumps({"usage": usage}).encode())
    assert counter.usage(MOST).estimated
