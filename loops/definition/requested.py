"""What a request means to the workflow that it is for: the inputs of its trigger, compiled and rendered."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pydantic import JsonValue, TypeAdapter, ValidationError

from loops.definition.findings import Findings
from loops.definition.inputs import SOURCES
from loops.definition.inputs.compile import Compiled, compile_inputs
from loops.definition.references import Surroundings
from loops.definition.schema.triggers import RequestedTrigger, Trigger, TriggerConfig
from loops.errors import DefinitionError
from loops.expressions import Template

_TRIGGER: TypeAdapter[Trigger] = TypeAdapter(TriggerConfig)
_HEADER = re.compile(r"request\.headers(?:\.([A-Za-z_$][\w$]*)|\['([^'\\]*)'\])", re.ASCII)
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Requested:
    """A trigger of type webhook or manual. `headers` are the names, in lower case, of the headers that its templates
    read; `debug` tells the sender what its request came to."""

    method: str
    debug: bool
    headers: frozenset[str]
    _inputs: Mapping[str, Compiled]

    def render(self, request: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """`event`, `distinct_id` and, where it is given, `properties`. Raises TemplateError."""
        scope = {"request": request}
        return {
            name: one.render(scope) if isinstance(one, Template) else _plain(one) for name, one in self._inputs.items()
        }


def compile_requested(config: Mapping[str, object]) -> Requested:
    """A stored trigger's config; the same object as long as it is the same. Raises DefinitionError for what is none."""
    return _compiled(json.dumps(config, sort_keys=True))


@lru_cache(maxsize=_KEPT)
def _compiled(text: str) -> Requested:
    try:
        trigger = _TRIGGER.validate_python(json.loads(text))
    except ValidationError as error:
        message = f"is not what this release reads: {error.errors()[0]['msg']}"
        raise DefinitionError.at("trigger.config", message) from error
    if not isinstance(trigger, RequestedTrigger):
        raise DefinitionError.at("trigger.config.type", f"is {trigger.type}: no request starts it")
    findings = Findings()
    inputs = compile_inputs(SOURCES[trigger.type], trigger.inputs, "trigger.config.inputs", Surroundings(), findings)
    if findings.faults:
        raise DefinitionError(findings.faults)
    method, debug = inputs.pop("method", "POST"), inputs.pop("debug", False)
    return Requested(str(method), debug is True, frozenset(_headers(inputs.values())), inputs)


def _headers(inputs: Iterable[Compiled]) -> Iterable[str]:
    for one in inputs:
        for path in one.paths if isinstance(one, Template) else ():
            if found := _HEADER.match(path):
                yield (found[1] or found[2]).lower()


def _plain(value: Compiled) -> JsonValue:
    """An input without templates, as JSON."""
    if isinstance(value, Template):
        raise TypeError("a template has no value before it is rendered")
    return {key: _plain(one) for key, one in value.items()} if isinstance(value, Mapping) else value
