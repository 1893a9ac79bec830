"""Codex: `codex exec --json`, its stream of JSON events."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from loops.tasks.runners.claude_code import event_of
from loops.tasks.runners.told import Errand, Invocation, Told
from loops.tasks.runners.trace import FAILED, Trace

HOME = "/tmp/home/.codex"  # noqa: S108 - of the sandbox
SCHEMA = "/run/loops/schema.json"

_TOKEN = "LOOPS_WHILE_TOKEN"  # noqa: S105 - the name of a variable
_EFFORTS = frozenset({"minimal", "low", "medium", "high", "xhigh"})
_SETTINGS = (
    "model_provider=loops",
    'model_providers.loops.name="loops"',
    'model_providers.loops.wire_api="responses"',
    f'model_providers.loops.env_key="{_TOKEN}"',
    "model_providers.loops.request_max_retries=4",
    "model_providers.loops.stream_max_retries=4",
    'approval_policy="never"',
    'web_search="disabled"',
    # Its shells get no token. They could read it elsewhere in the sandbox; it is good for this task alone.
    f'shell_environment_policy.exclude=["{_TOKEN}"]',
    "check_for_update_on_startup=false",
    # Without a network it would wait for five seconds at its end to send them.
    "analytics.enabled=false",
)
_CALLS = frozenset({"command_execution", "mcp_tool_call", "file_change", "web_search"})


@dataclass(frozen=True, slots=True)
class Codex:
    """See Dialect. Its own sandbox is off: it cannot work inside ours, which is the stronger one."""

    api: Final[Literal["openai"]] = "openai"

    def invocation(self, errand: Errand) -> Invocation:
        """See Dialect. The prompt goes by stdin."""
        options = ["exec", "--json", "--ephemeral", "--ignore-user-config", "--ignore-rules", "--skip-git-repo-check"]
        options += ["-s", "danger-full-access", "-m", errand.model]
        settings = [*_SETTINGS, f"model_providers.loops.base_url={json.dumps(f'{errand.base_url}/v1')}"]
        settings.append(f"developer_instructions={json.dumps(errand.system, ensure_ascii=False)}")
        if errand.effort in _EFFORTS:
            settings.append(f'model_reasoning_effort="{errand.effort}"')
        for one in settings:
            options += ["-c", one]
        files = {}
        if errand.schema is not None:
            options += ["--output-schema", SCHEMA]
            files[SCHEMA] = json.dumps(errand.schema).encode()
        argv = (errand.program, *errand.arguments, *options, "-")
        environment = {"CODEX_HOME": HOME, _TOKEN: errand.token}
        return Invocation(argv, environment, errand.prompt.encode(), files, (HOME,))

    def reader(self, trace: Trace) -> "CodexReader":
        """See Dialect."""
        return CodexReader(trace)


class CodexReader:
    """See Reader. It tells no answer apart from the next one: a round ends when all of its calls are over."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._last = ""
        self._error = ""
        self._end: Mapping[str, Any] | None = None

    async def line(self, line: bytes) -> None:
        """See Reader."""
        event = event_of(line)
        match (event or {}).get("type"):
            case "item.started" | "item.completed" if event is not None:
                item = event.get("item")
                if isinstance(item, dict):
                    await self._item(item, is_over=event["type"] == "item.completed")
            case "error" if event is not None:
                self._error = str(event.get("message") or "")
            case "turn.completed" | "turn.failed":
                self._end = event

    async def _item(self, item: Mapping[str, Any], *, is_over: bool) -> None:
        kind, text = str(item.get("type") or ""), str(item.get("text") or "")
        if kind in _CALLS:
            await self._call(str(item.get("id") or ""), kind, item, is_over=is_over)
        elif kind == "agent_message" and is_over:
            self._last = text
            await self._trace.said(text)
        elif kind == "reasoning" and is_over:
            await self._trace.thought(text)

    async def _call(self, call_id: str, kind: str, item: Mapping[str, Any], *, is_over: bool) -> None:
        if not self._trace.knows(call_id):
            await self._trace.called(call_id, _name(kind, item), json.dumps(_arguments(kind, item)))
        if is_over:
            code = "" if item.get("status") in ("completed", None) else FAILED
            await self._trace.returned(call_id, _outcome(item), code)

    async def end(self) -> None:
        """See Reader."""

    def told(self) -> Told | None:
        """See Reader. Where the turn failed, the last error says why."""
        if self._end is None:
            return Told("provider_error", self._error) if self._error else None
        if self._end.get("type") == "turn.completed":
            return Told("done", "", self._last, _structured(self._last))
        error = self._end.get("error")
        reason = str(error.get("message") or "") if isinstance(error, dict) else ""
        return Told("provider_error", reason or self._error or "its turn failed", self._last)


def _name(kind: str, item: Mapping[str, Any]) -> str:
    return f"{item.get('server')}__{item.get('tool')}" if kind == "mcp_tool_call" else kind


def _arguments(kind: str, item: Mapping[str, Any]) -> object:
    match kind:
        case "command_execution":
            return {"command": item.get("command")}
        case "file_change":
            return {"changes": item.get("changes")}
        case "mcp_tool_call":
            return item.get("arguments")
    return {"query": item.get("query")}


def _outcome(item: Mapping[str, Any]) -> str:
    output, code = item.get("aggregated_output"), item.get("exit_code")
    if isinstance(output, str):
        return output if code in (0, None) else f"{output}\n[exit code {code}]"
    for key in ("error", "result", "status"):
        if item.get(key) is not None:
            value = item[key]
            return value if isinstance(value, str) else json.dumps(value)
    return ""


def _structured(text: str) -> Mapping[str, Any] | None:
    """A report by the schema is the last text itself."""
    return event_of(text.encode()) if text.lstrip().startswith("{") else None
