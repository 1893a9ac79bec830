import json

import pytest

from loops.agent.transcript import Usage
from loops.tasks.runners.proxy.allowed import CHAT, COUNT, MESSAGES, RESPONSES
from loops.tasks.runners.proxy.asked import Asked, Barred, asked
from loops.tasks.runners.proxy.counting import AnswerCounter
from tests.doubles.model_servers import Answer, stream_of

MOST = Usage(500, 4_096, estimated=True)
WHOLE = Usage(500, 32_000, estimated=True)
MODEL = "claude-sonnet-4-6"


def passes(request, path=MESSAGES, model=MODEL):
    return asked(path, json.dumps(request).encode(), model)


def request(**changes):
    return {"model": MODEL, "max_tokens": 32_000, "messages": [], **changes}


def fit(request, path=MESSAGES, model=MODEL):
    one = passes(request, path, model)
    assert isinstance(one, Asked), one
    return one


def test_what_a_request_may_come_to_is_its_size_and_a_part_of_the_answer_that_it_allows():
    one = fit(request(messages=[{"role": "user", "content": "a" * 3_500}]))
    assert one.most.input > 1_000
    assert (one.most.output, one.whole.output) == (4_096, 32_000)
    short = fit(request(max_tokens=50))
    assert (short.most.output, short.whole.output) == (50, 50)


@pytest.mark.parametrize(
    ("limits", "put_aside", "whole"),
    [
        ({}, 4_096, 32_000),
        ({"max_tokens": None}, 4_096, 32_000),
        ({"max_tokens": 1, "max_completion_tokens": 9_000}, 4_096, 9_000),
        ({"n": 128, "max_completion_tokens": 128_000}, 128 * 4_096, 128 * 128_000),
    ],
)
def test_of_several_answers_each_is_put_aside(limits, put_aside, whole):
    one = fit({"model": "gpt-5", "messages": [], **limits}, CHAT, "gpt-5")
    assert (one.most.output, one.whole.output) == (put_aside, whole)


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "9", 10**30])
def test_a_limit_that_is_none_is_barred(number):
    assert isinstance(passes(request(max_tokens=number)), Barred)


def test_counting_tokens_costs_nothing():
    one = fit(request(max_tokens=None), COUNT)
    assert (one.most, one.whole) == (Usage(), Usage())


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("sonnet", "claude-sonnet-4-6"),
        ("opus", "claude-opus-5"),
        ("haiku", "claude-haiku-4-5-20251001"),
        ("haiku", "haiku"),
        (MODEL, f"{MODEL}-20260115"),
        ("gpt-5", "gpt-5-2025-08-07"),
    ],
)
def test_a_model_may_have_the_day_of_its_release_and_a_short_one_its_version(model, named):
    assert fit(request(model=named), model=model).model == named


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (MODEL, "claude-opus-5"),
        (MODEL, None),
        (MODEL, ["claude-sonnet-4-6"]),
        ("gpt-5", "gpt-5-pro"),
        ("gpt-5", "gpt-5-search-api"),
        ("gpt-5", "ft:gpt-5:org:x"),
        ("gpt-5", "gpt-5.5"),
        ("gpt-5", "2025-08-07"),
        ("gpt-5", "-20250807"),
        ("sonnet", "claude-sonnet"),
        ("sonnet", "claude-sonnet-4-6-fast"),
        ("sonnet", "claude-opus-5-sonnet-4"),
    ],
)
def test_another_model_is_barred_whatever_of_its_name_is_the_same(model, named):
    one = passes(request(model=named), model=model)
    assert isinstance(one, Barred)
    assert f"works with {model}" in one.reason


def user(*blocks):
    return [{"role": "user", "content": list(blocks)}]


IMAGE = {"type": "image", "source": {"type": "url", "url": "https://evil.test/?q=secret"}}
ADDED = {"type": "tool_addition", "tool": {"type": "web_search_20250305", "name": "web_search"}}
SHELL = {"type": "shell", "environment": {"type": "container_auto"}}
FOUND = {
    "type": "tool_search_output",
    "execution": "client",
    "tools": [{"type": "mcp", "server_url": "https://e.test"}],
}


@pytest.mark.parametrize(
    ("path", "changes", "words"),
    [
        (MESSAGES, {"mcp_servers": [{"url": "https://evil.test"}]}, "mcp_servers"),
        (MESSAGES, {"container": "c"}, "container"),
        (MESSAGES, {"Tools": []}, "Tools"),
        (MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search"),
        (MESSAGES, {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}, "web_fetch"),
        (MESSAGES, {"tools": [{"type": "bash_20250124_and_more"}]}, "bash"),
        (MESSAGES, {"tools": ["web_search"]}, "no object"),
        (MESSAGES, {"messages": user(IMAGE)}, "a url"),
        (MESSAGES, {"messages": user({"type": "tool_result", "content": [IMAGE]})}, "a url"),
        (MESSAGES, {"messages": user({"type": "document", "source": {"file_id": "f"}})}, "by its id"),
        (MESSAGES, {"messages": user({"type": "document", "source": {"url": "https://e.test"}})}, "by its address"),
        (MESSAGES, {"messages": user({"type": "container_upload"})}, "container_upload"),
        (MESSAGES, {"messages": user(ADDED)}, "web_search"),
        (COUNT, {"mcp_servers": [{"url": "https://evil.test"}]}, "mcp_servers"),
        (CHAT, {"web_search_options": {}}, "web_search_options"),
        (CHAT, {"messages": user({"type": "image_url", "image_url": {"url": "http://e.test"}})}, "by its address"),
        (CHAT, {"messages": user({"type": "file", "file": {"file_id": "f"}})}, "by its id"),
        (RESPONSES, {"previous_response_id": "r"}, "previous_response_id"),
        (RESPONSES, {"background": True}, "background"),
        (RESPONSES, {"store": True}, "store"),
        (RESPONSES, {"tools": [SHELL]}, "the tool shell"),
        (RESPONSES, {"tools": [{"type": "image_generation"}]}, "image_generation"),
        (RESPONSES, {"tools": [{"type": "tool_search"}]}, "tool_search"),
        (RESPONSES, {"tools": [{"type": "mcp", "server_url": "https://evil.test"}]}, "mcp"),
        (RESPONSES, {"tools": [{"type": "namespace", "tools": [{"type": "code_interpreter"}]}]}, "code_interpreter"),
        (RESPONSES, {"input": [FOUND]}, "the tool mcp"),
        (RESPONSES, {"input": [{"type": "item_reference", "id": "r"}]}, "item_reference"),
        (RESPONSES, {"input": user({"type": "input_image", "image_url": "http://e.test"})}, "by its address"),
        (RESPONSES, {"input": [{"type": "function_call_output", "output": [{"file_url": "x"}]}]}, "by its address"),
    ],
)
def test_what_is_not_known_to_reach_nobody_but_the_model_is_barred(path, changes, words):
    one = passes({"model": MODEL, **changes}, path)
    assert isinstance(one, Barred)
    assert words in one.reason


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "other", "model": "m"}',
        b'{"model": "m", "mcp_servers": [1], "mcp_servers": null}',
        b'{"model": "m", "messages": [{"type": "text", "type": "text"}]}',
    ],
)
def test_a_key_that_stands_twice_is_barred(body):
    one = asked(MESSAGES, body, "m")
    assert isinstance(one, Barred)
    assert "twice" in one.reason


def test_what_is_sent_is_what_was_understood():
    body = b' {"model" : "m", "messages": [{"role": "user", "content": "\\u00fc \\ud800"}], "temperature": 0.1}\n'
    one = asked(MESSAGES, body, "m")
    assert isinstance(one, Asked)
    assert json.loads(one.body) == json.loads(body)
    assert one.body.startswith(b'{"model":"m",')


def test_a_stream_of_chat_completions_is_made_to_tell_what_it_used():
    one = fit({"model": MODEL, "stream": True, "stream_options": {"include_usage": False}}, CHAT)
    assert json.loads(one.body)["stream_options"] == {"include_usage": True}


NESTED = b'{"model": "m", "messages": ' + b'[{"content": ' * 20 + b"1" + b"}]" * 20 + b"}"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"\xff", 400),
        (b"[" * 50_000, 400),
        (b"[" + b"[]," * 130_000 + b"1]", 413),
        (b"[" + b'"a","b",' * 40_000 + b"1]", 413),
        (b'"",' * 70_000 + b'""' * 100_000, 413),
        (b'{"model": "m", "temperature": 1e999}', 400),
    ],
    ids=["empty", "list", "bytes", "deep", "many", "many texts", "texts alone", "infinite"],
)
def test_what_is_no_request_is_barred(body, status):
    one = asked("/v1/messages", body, "m")
    assert isinstance(one, Barred)
    assert one.status == status


def test_what_stands_in_texts_is_no_value():
    long = 'a,[{\\"' * 100_000
    assert len(fit(request(system=long, messages=user({"type": "text", "text": long}))).body) > 1_000_000


def test_a_text_that_does_not_end_is_looked_into_once():
    for end in (b"", b"\\\\", b"\\"):
        assert isinstance(asked(MESSAGES, b'{"model": "m' + b',\\"' * 300_000 + end, "m"), Barred)


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
    tools = [
        {"name": "Bash", "input_schema": {"type": "object", "properties": {"url": {"type": "string"}}}},
        {"type": "function", "name": "web_search"},
        {"type": "tool_search", "execution": "client"},
        {"type": "namespace", "tools": [{"type": "custom", "name": "apply_patch"}]},
    ]
    fit(request(messages=messages, tools=tools))


@pytest.mark.parametrize("protocol", ["anthropic", "openai", "responses"])
@pytest.mark.parametrize("size", [7, 100_000])
def test_a_stream_is_counted_however_it_is_cut(protocol, size):
    answer = Answer("Fixed.", [("Read", "{}")], input=2_000, output=60, cached=1_500)
    whole = b"".join(stream_of(protocol, answer))
    counter = AnswerCounter(is_stream=True)
    for start in range(0, len(whole), size):
        counter.add(whole[start : start + size])
    assert counter.usage(MOST, WHOLE) == Usage(2_000, 60, cache_read=1_500)


@pytest.mark.parametrize("protocol", ["anthropic", "openai", "responses"])
def test_a_stream_that_breaks_off_is_counted_by_what_it_wrote_and_not_by_what_it_told_at_its_beginning(protocol):
    counter = AnswerCounter(is_stream=True, now=lambda: 0.0)
    counter.add(b"".join(stream_of(protocol, Answer("word " * 20_000, input=700, breaks_off=True))))
    used = counter.usage(MOST, WHOLE)
    assert (used.input, used.estimated) == (700 if protocol == "anthropic" else 500, True)
    assert 20_000 < used.output < 40_000


def test_a_stream_that_breaks_off_is_counted_by_its_time_where_it_shows_little():
    seconds = iter([0.0, 60.0])
    counter = AnswerCounter(is_stream=True, now=lambda: next(seconds))
    counter.add(b"".join(stream_of("responses", Answer("", breaks_off=True))))
    assert counter.usage(MOST, WHOLE).output == 6_000


def test_a_stream_that_ends_without_a_word_of_what_it_used_is_counted_by_what_it_wrote():
    counter = AnswerCounter(is_stream=True)
    counter.add(b"".join(stream_of("openai", Answer("Fixed it all.", breaks_off=True))))
    counter.add(b"data: [DONE]\n\n")
    assert counter.usage(MOST, WHOLE) == Usage(500, 4, estimated=True)


def test_a_document_that_is_cut_off_costs_all_that_it_may():
    counter = AnswerCounter(is_stream=False)
    counter.add(b'{"usage": {"input_tokens": 10, "output_')
    assert counter.usage(MOST, WHOLE) == WHOLE


def test_a_document_is_counted_too():
    counter = AnswerCounter(is_stream=False)
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 2}
    counter.add(json.dumps({"content": [], "usage": usage}).encode())
    assert counter.usage(MOST, WHOLE) == Usage(18, 2, 5, 3)


@pytest.mark.parametrize("usage", [None, [], {"input_tokens": -1}, {"input_tokens": "many"}, {"output_tokens": True}])
def test_a_count_that_is_none_is_estimated(usage):
    counter = AnswerCounter(is_stream=False)
    counter.add(json.dumps({"usage": usage}).encode())
    used = counter.usage(MOST, WHOLE)
    assert used.estimated
    assert 0 < used.output < 20
