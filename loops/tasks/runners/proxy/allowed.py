"""What of a request may pass: what is known to reach nobody but the model, for each path. All else may not."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MESSAGES: Final = "/v1/messages"
COUNT: Final = "/v1/messages/count_tokens"
RESPONSES: Final = "/v1/responses"
CHAT: Final = "/v1/chat/completions"

_OF_ALL = "model tools tool_choice stream temperature top_p metadata "
_OF_OPENAI = (
    "parallel_tool_calls store stream_options user safety_identifier prompt_cache_key prompt_cache_retention "
    "top_logprobs "
)
_OF_MESSAGES = "messages system max_tokens stop_sequences top_k thinking output_config output_format "
_OF_MESSAGES += "context_management cache_control"
_KEYS: Mapping[str, frozenset[str]] = {
    path: frozenset((_OF_ALL + own).split())
    for path, own in {
        MESSAGES: _OF_MESSAGES,
        COUNT: _OF_MESSAGES,
        RESPONSES: _OF_OPENAI + "input instructions max_output_tokens max_tool_calls reasoning include text truncation "
        "client_metadata",
        CHAT: _OF_OPENAI
        + "messages max_tokens max_completion_tokens n stop response_format reasoning_effort verbosity "
        "seed presence_penalty frequency_penalty logit_bias logprobs functions function_call",
    }.items()
}

_TOOLS = frozenset({"function", "custom", "namespace", "local_shell", "apply_patch", "tool_reference"})
"""Kinds of tools that the agent executes itself."""
_DATED_TOOL = re.compile(r"(bash|text_editor)_[0-9]{8}")
_BLOCKS_OF_MESSAGES = (
    "text image document search_result thinking redacted_thinking tool_use tool_result tool_reference tool_addition "
    "tool_removal compaction base64 content ephemeral direct char_location page_location content_block_location"
)
_BLOCKS_OF_RESPONSES = (
    "message input_text input_image input_file output_text refusal reasoning summary_text reasoning_text function_call "
    "function_call_output custom_tool_call custom_tool_call_output local_shell_call local_shell_call_output "
    "apply_patch_call apply_patch_call_output tool_search_call tool_search_output additional_tools agent_message "
    "encrypted_content compaction compaction_summary context_compaction compaction_trigger"
)
_BLOCKS_OF_CHAT = "function custom image_url file"
_BLOCKS = frozenset(f"{_BLOCKS_OF_MESSAGES} {_BLOCKS_OF_RESPONSES} {_BLOCKS_OF_CHAT}".split())
_OWN = frozenset({"input", "arguments", "action", "operation"})
"""What a model gave to a tool: it is not looked into, and means nothing to the provider."""
_ADDRESSES = frozenset({"url", "file_url", "image_url"})
_DEEPEST = 30


def not_allowed(path: str, request: Mapping[str, Any]) -> Iterator[str]:
    """What in a request is not known to be harmless: it might let the provider fetch, search, execute or call
    something, and so carry text out, or read what other tasks left there."""
    known = _KEYS[path]
    yield from (key[:40] for key, value in request.items() if key not in known and value not in (None, False))
    if request.get("store") not in (None, False):
        yield "store"
    yield from _tools(request.get("tools"))
    for key in ("messages", "input", "system"):
        yield from _content(request.get(key))


def _tools(tools: object, depth: int = 0) -> Iterator[str]:
    if depth > _DEEPEST:
        yield "what is nested so deep"
        return
    for tool in tools if isinstance(tools, list) else () if tools is None else (tools,):
        if not isinstance(tool, dict):
            yield "a tool that is no object"
            continue
        kind = tool.get("type")
        is_search = kind == "tool_search" and tool.get("execution") == "client"
        if kind is not None and not is_search and not _is_tool(kind):
            yield f"the tool {str(kind)[:40]}"
        yield from _tools(tool.get("tools"), depth + 1)


def _is_tool(kind: object) -> bool:
    return isinstance(kind, str) and (kind in _TOOLS or _DATED_TOOL.fullmatch(kind) is not None)


def _content(content: object, depth: int = 0) -> Iterator[str]:
    """What in blocks is of a kind that is not known, or names a file instead of holding it."""
    if depth > _DEEPEST:
        yield "what is nested so deep"
    elif isinstance(content, list):
        for item in content:
            yield from _content(item, depth + 1)
    elif isinstance(content, dict):
        yield from _block(content, depth)


def _block(block: Mapping[str, Any], depth: int) -> Iterator[str]:
    kind = block.get("type")
    if kind is not None and (not isinstance(kind, str) or kind not in _BLOCKS):
        yield f"a {str(kind)[:40]}"
    if kind == "tool_search_output" and block.get("execution") != "client":
        yield "a search for tools by the provider"
    for key, value in block.items():
        if key in _ADDRESSES and isinstance(value, str) and not value.startswith("data:"):
            yield f"a file by its address ({key})"
        elif key == "file_id" and value is not None:
            yield "a file by its id"
        elif key in {"tools", "tool"}:
            yield from _tools(value)
        elif key not in _OWN:
            yield from _content(value, depth + 1)
