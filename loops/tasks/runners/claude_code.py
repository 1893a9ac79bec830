"""Claude Code: `claude -p`, its stream of JSON events."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from loops.agent.guards import Ending
from loops.tasks.runners.told import Errand, Invocation, Told
from loops.tasks.runners.trace import FAILED, Trace

TOOLS = "Bash,Edit,Read,Write,Glob,Grep"
"""No other of its own tools: none that asks a person, starts another agent, or lets its provider reach elsewhere."""

_STRUCTURED = "StructuredOutput"
_ENDINGS: Mapping[str, Ending] = {"error_max_turns": "max_rounds", "error_max_budget_usd": "budget"}
_PROVIDER = frozenset({"api_error", "prompt_too_long", "model_error"})
_EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})
_SMALL_MODELS = ("ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """See Dialect."""

    api: Final[Literal["anthropic"]] = "anthropic"

    def invocation(self, errand: Errand) -> Invocation:
        """See Dialect. The prompt goes by stdin: a text of others is no argument of a program."""
        options = ["-p", "--output-format", "stream-json", "--verbose", "--model", errand.model]
        options += ["--permission-mode", "bypassPermissions", "--tools", TOOLS, "--max-turns", str(errand.max_rounds)]
        options += ["--strict-mcp-config", "--setting-sources", "", "--no-session-persistence"]
        options += ["--append-system-prompt", errand.system]
        if errand.schema is not None:
            options += ["--json-schema", json.dumps(errand.schema)]
        if errand.effort in _EFFORTS:
            options += ["--effort", errand.effort]
        environment = {
            "ANTHROPIC_BASE_URL": errand.base_url,
            "ANTHROPIC_API_KEY": errand.token,
            # Its side errands go to the same model. What `haiku` is short for it knows itself.
            **({} if errand.model == "haiku" else dict.fromkeys(_SMALL_MODELS, errand.model)),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "4",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }
        argv = (errand.program, *errand.arguments, *options)
        return Invocation(argv, environment, errand.prompt.encode())

    def reader(self, trace: Trace) -> "ClaudeReader":
        """See Dialect."""
        return ClaudeReader(trace)


class ClaudeReader:
    """See Reader. What it does not know of is passed over: the format grows with every release."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._result: Mapping[str, Any] | None = None

    async def line(self, line: bytes) -> None:
        """See Reader."""
        event = event_of(line)
        # What has a parent was said by an agent that this one asked, and comes back as a result.
        if event is None or event.get("parent_tool_use_id"):
            return
        match event.get("type"):
            case "assistant":
                await self._answer(_object(event.get("message")))
            case "user":
                for block in _blocks(event.get("message")):
                    await self._returned(block)
            case "result":
                self._result = event

    async def _answer(self, message: Mapping[str, Any]) -> None:
        if message.get("model") == "<synthetic>":  # an error in the shape of an answer; the result tells it too
            return
        key = str(message.get("id") or "")
        for block in _blocks(message):
            match block.get("type"):
                case "text":
                    await self._trace.said(str(block.get("text") or ""), key=key)
                case "thinking":
                    await self._trace.thought(str(block.get("thinking") or ""), key=key)
                case "tool_use":
                    name, given = str(block.get("name") or ""), json.dumps(block.get("input"))
                    await self._trace.called(str(block.get("id") or ""), name, given, key=key)

    async def _returned(self, block: Mapping[str, Any]) -> None:
        if block.get("type") == "tool_result":
            code = FAILED if block.get("is_error") else ""
            await self._trace.returned(str(block.get("tool_use_id") or ""), text_of(block.get("content")), code)

    async def end(self) -> None:
        """See Reader."""

    def told(self) -> Told | None:
        """See Reader."""
        result = self._result
        if result is None:
            return None
        message = str(result.get("result") or "")
        structured = result.get("structured_output")
        ending, reason = _end(result, message)
        return Told(
            ending,
            reason,
            "" if reason and reason == message else message,
            structured if isinstance(structured, dict) else None,
            _cost(result),
            tuple(sorted({str(one.get("tool_name")) for one in _objects(result.get("permission_denials"))})),
        )


def _end(result: Mapping[str, Any], message: str) -> tuple[Ending, str]:
    """The ending that a result line means. Its subtype alone says nothing: a refused request is a `success` too."""
    subtype, terminal = str(result.get("subtype") or ""), str(result.get("terminal_reason") or "")
    errors = "; ".join(map(str, result["errors"])) if isinstance(result.get("errors"), list) else ""
    if subtype == "success" and not result.get("is_error"):
        return "done", ""
    if subtype in _ENDINGS:
        return _ENDINGS[subtype], errors or subtype
    if terminal in _PROVIDER or result.get("api_error_status"):
        return "provider_error", message or errors or terminal
    return "runner_error", errors or message or subtype or "it ended with an error that it did not name"


def _cost(result: Mapping[str, Any]) -> Decimal | None:
    """Its own count of dollars, where it knows the price of every model that it used."""
    used = result.get("modelUsage")
    models = list(used.values()) if isinstance(used, dict) else []
    known = models and all(isinstance(one, dict) and one.get("costBasis") == "list" for one in models)
    total = result.get("total_cost_usd")
    return Decimal(str(total)) if known and isinstance(total, int | float) and total >= 0 else None


def event_of(line: bytes) -> Mapping[str, Any] | None:
    """The JSON object in a line; None where it holds none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def text_of(content: object) -> str:
    """The text of a content that is a text, or blocks of which some are."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text") or f"[{block.get('type')}]") for block in _objects(content))


def _blocks(message: object) -> Iterable[Mapping[str, Any]]:
    content = _object(message).get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
