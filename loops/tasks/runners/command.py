"""Any command: the prompt on its stdin, a report on its stdout, as plain text or in a small protocol of JSON lines.

    {"type": "text" | "thought", "text": "..."}
    {"type": "call", "id": "1", "name": "...", "arguments": {...}}
    {"type": "result", "id": "1", "text": "...", "failed": false}
    {"type": "end", "final_message": "...", "outcome": "done" | "noop", "reason": "...", "output": {...}}
    {"type": "error", "message": "..."}

The first line that is not empty tells which of the two it is. A plain text that is one JSON object with
`final_message` is a structured report.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from config.runner_settings import Api
from loops.tasks.runners.claude_code import event_of
from loops.tasks.runners.told import Errand, Invocation, Told
from loops.tasks.runners.trace import FAILED, Trace

SCHEMA = "/run/loops/schema.json"
MOST_PLAIN = 256_000

_EVENTS = frozenset({"text", "thought", "call", "result", "end", "error"})


@dataclass(frozen=True, slots=True)
class CommandLine:
    """See Dialect. `api` is what the operator says that it speaks to its model."""

    api: Api | None = None

    def invocation(self, errand: Errand) -> Invocation:
        """See Dialect. Its arguments are the operator's, with the model put in."""
        argv = (errand.program, *(one.replace("{model}", errand.model) for one in errand.arguments))
        environment = {"LOOPS_WHILE_TASK": errand.task_id, "LOOPS_WHILE_MODEL": errand.model, **self._access(errand)}
        files = {}
        if errand.schema is not None:
            files[SCHEMA] = json.dumps(errand.schema).encode()
            environment["LOOPS_WHILE_SCHEMA"] = SCHEMA
        return Invocation(argv, environment, f"{errand.system}\n\n{errand.prompt}".encode(), files)

    def _access(self, errand: Errand) -> Mapping[str, str]:
        if self.api == "anthropic":
            return {"ANTHROPIC_BASE_URL": errand.base_url, "ANTHROPIC_API_KEY": errand.token}
        if self.api == "openai":
            base_url = f"{errand.base_url}/v1"
            return {"OPENAI_BASE_URL": base_url, "OPENAI_API_BASE": base_url, "OPENAI_API_KEY": errand.token}
        return {}

    def reader(self, trace: Trace) -> "CommandReader":
        """See Dialect."""
        return CommandReader(trace)


class CommandReader:
    """See Reader."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._speaks: bool | None = None
        self._plain: list[str] = []
        self._size = 0
        self._told: Told | None = None

    async def line(self, line: bytes) -> None:
        """See Reader."""
        event = event_of(line) if self._speaks is not False and line.lstrip().startswith(b"{") else None
        known = event is not None and str(event.get("type")) in _EVENTS
        if self._speaks is None and line.strip():
            self._speaks = known
        if self._speaks and event is not None and known:
            await self._event(event)
        elif not self._speaks and self._size < MOST_PLAIN:
            text = line.decode("utf-8", "replace")
            self._size += len(text) + 1
            self._plain.append(text)

    async def _event(self, event: Mapping[str, Any]) -> None:
        text = _text(event, "text")
        match event["type"]:
            case "text":
                await self._trace.said(text)
            case "thought":
                await self._trace.thought(text)
            case "call":
                given = json.dumps(event.get("arguments"))
                await self._trace.called(_text(event, "id"), _text(event, "name"), given)
            case "result":
                await self._trace.returned(_text(event, "id"), text, FAILED if event.get("failed") else "")
            case "error":
                self._told = Told("runner_error", _text(event, "message") or "it told of an error without a message")
            case "end":
                self._told = Told("done", "", _text(event, "final_message"), event)

    async def end(self) -> None:
        """See Reader."""
        if self._speaks is False:
            text = "\n".join(self._plain).strip()
            await self._trace.said(text)
            structured = event_of(text.encode()) if text.startswith("{") else None
            self._told = Told("done", "", text, structured if structured and "final_message" in structured else None)

    def told(self) -> Told | None:
        """See Reader."""
        return self._told


def _text(event: Mapping[str, Any], key: str) -> str:
    value = event.get(key)
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
