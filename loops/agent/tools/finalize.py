"""finalize: how an agent ends. It is always there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from loops.agent.model import ToolSpec
from loops.agent.sanitise import sanitised
from loops.agent.tools.tool import Arguments, CallContext, Effect, ToolError, fitting, schema_of
from loops.event import JsonValue

FINALIZE = "finalize"
MOST_FIELD = 8_000
MOST_OUTPUT = 32_000
"""Characters of one field, and of all: later steps read it; what is for people is the report."""
FieldType = Literal["string", "number", "boolean"]
Outcome = Literal["done", "noop"]

_DESCRIPTION = (
    "End the task. Call it once, when the work is done or when there is nothing to do; nothing runs after it. "
    "final_message is the whole report: people read it without seeing anything else."
)


@dataclass(frozen=True, slots=True)
class Final:
    """What an agent came to. `reason` says why there was nothing to do."""

    message: str
    outcome: Outcome = "done"
    reason: str = ""
    output: Mapping[str, JsonValue] = field(default_factory=dict)


class _Plain(Arguments):
    final_message: str = Field(default="", description="The report, in Markdown. Required when something was done.")
    outcome: Outcome = Field(default="done", description="noop when there was nothing to do; then give a reason.")
    reason: str = Field(default="", description="Why there was nothing to do. Required with noop.")


class Finalize:
    """The tool, with the structured fields that the task asks for: `{name: type}`."""

    effect: Effect = "keyed_write"

    def __init__(self, fields: Mapping[str, FieldType] | None = None) -> None:
        self.fields = dict(fields or {})

    @property
    def spec(self) -> ToolSpec:
        """The schema; `output` is in it where fields are asked for."""
        schema = schema_of(_Plain)
        if self.fields:
            schema["properties"]["output"] = {
                "type": "object",
                "description": "What later steps read. Required unless the outcome is noop.",
                "properties": {name: {"type": kind} for name, kind in self.fields.items()},
                "required": list(self.fields),
                "additionalProperties": False,
            }
        return ToolSpec(FINALIZE, _DESCRIPTION, schema)

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> JsonValue:  # noqa: ARG002
        """Accept the end, or say what is missing."""
        self.read(arguments)
        return {"accepted": True}

    def read(self, arguments: Mapping[str, Any]) -> Final:
        """What the arguments say. Raises ToolError where they do not amount to an end."""
        given = {name: value for name, value in arguments.items() if name != "output"}
        plain = fitting(_Plain, given)
        message, reason = plain.final_message.strip(), plain.reason.strip()
        if plain.outcome == "noop":
            if _is_blank(reason):
                raise ToolError("FINALIZE_NO_REASON", "noop needs a reason", "say in `reason` why nothing was to do")
            return Final(message or reason, "noop", reason, self._valid_part(arguments.get("output")))
        if _is_blank(message):
            raise ToolError("FINALIZE_EMPTY", "final_message is empty", "write the report into final_message")
        return Final(message, "done", reason, self._checked(arguments.get("output")))

    def partial(self, arguments: Mapping[str, Any]) -> Final:
        """What there is of an end that was not accepted: its text, and the fields that are valid."""
        message = arguments.get("final_message")
        text = message.strip() if isinstance(message, str) else ""
        return Final(text, output=self._valid_part(arguments.get("output")))

    def _checked(self, output: object) -> dict[str, JsonValue]:
        given = {} if output is None else output
        expected = ", ".join(f"{name} ({kind})" for name, kind in self.fields.items()) or "none"
        if not isinstance(given, dict):
            raise ToolError("BAD_ARGUMENTS", "output is no object", f"fields of output: {expected}")
        valid = self._valid_part(given, partial=False)
        faults = [
            f"output.{name}: {_fault(given, name, kind)}" for name, kind in self.fields.items() if name not in valid
        ]
        faults += [f"output.{name}: is not asked for" for name in given if name not in self.fields]
        faults += [f"output.{name}: is over {MOST_FIELD} characters" for name in valid if _is_long(valid[name])]
        if sum(len(value) for value in valid.values() if isinstance(value, str)) > MOST_OUTPUT:
            faults.append(f"output: is over {MOST_OUTPUT} characters in all")
        if faults:
            raise ToolError("BAD_ARGUMENTS", "; ".join(faults), f"fields of output: {expected}")
        return valid

    def _valid_part(self, output: object, *, partial: bool = True) -> dict[str, JsonValue]:
        given = output if isinstance(output, dict) else {}
        fitting_ones = {
            name: given[name] for name, kind in self.fields.items() if name in given and _fits(given[name], kind)
        }
        return {name: value for name, value in fitting_ones.items() if not _is_long(value)} if partial else fitting_ones


def _is_blank(text: str) -> bool:
    """Whether a reader sees nothing of it."""
    return not sanitised(text).strip()


def _is_long(value: JsonValue) -> bool:
    return isinstance(value, str) and len(value) > MOST_FIELD


def _fault(given: Mapping[str, object], name: str, kind: FieldType) -> str:
    return f"is no {kind}" if name in given else f"is missing, a {kind}"


def _fits(value: object, kind: FieldType) -> bool:
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
    return isinstance(value, str if kind == "string" else bool)
