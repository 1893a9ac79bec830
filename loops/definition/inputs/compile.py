"""The inputs of one action or trigger: validated against what its template takes, their templates compiled."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from pydantic import JsonValue

from loops.definition.findings import Findings, join
from loops.definition.inputs.base import Inputs, Language, Templated, templated
from loops.definition.references import (
    INSTRUCTION_ROOTS,
    Surroundings,
    inspect_braces,
    inspect_instruction,
    inspect_references,
    inspect_roots,
)
from loops.definition.schema.parts import Input
from loops.definition.schema.validator import Validator
from loops.errors import TemplateError
from loops.expressions import Template, compile_template

Compiled: TypeAlias = "Template | JsonValue | Mapping[str, Compiled]"


def compile_inputs(
    schema: type[Inputs], given: Mapping[str, Input], path: str, around: Surroundings, findings: Findings
) -> dict[str, Compiled]:
    """The inputs by name, templates compiled, defaults filled in, in the order in which they are to be rendered.

    `path` is where the inputs stand. Faults and warnings go to `findings`; what is faulty is left out.
    """
    said: dict[str, JsonValue] = {}
    said.update((name, one.value) for name, one in given.items() if one.value is not None and one.value != "")
    schema.lacking(said, path, findings)
    shape = Findings(findings)
    rest = _validator(schema).validate(said, path, shape, _place).rest
    findings.absorb(shape)
    if rest is None:
        return {}
    further = Findings(findings)
    compiled: dict[str, Compiled] = {}
    for name, value in _ordered(rest, given):
        marker = templated(schema.model_fields[name])
        compiled[name] = value
        if marker is not None:
            language = (given[name].templating if name in given else None) or marker.language
            compiler = _Compiler(schema.roots, marker, language, around, further)
            compiled[name] = compiler.compile_input(value, join(path, name))
    findings.absorb(further)
    return compiled


@cache
def _validator(schema: type[Inputs]) -> Validator[Inputs]:
    return Validator(schema)


def _place(path: str, parts: Sequence[str | int]) -> str:
    """An input is named as a whole; what lies inside its value by its exact place."""
    name, *inner = parts
    return join(path, name, "value", *inner) if inner else join(path, name)


def _ordered(inputs: Inputs, given: Mapping[str, Input]) -> Iterator[tuple[str, JsonValue]]:
    """The inputs that have a value, as JSON: by `order`, where it is given, else as they stand; defaults first."""
    places = {name: place for place, name in enumerate(given)}
    values = inputs.model_dump(mode="json", by_alias=True)
    names = [name for name, value in values.items() if value is not None]

    def rank(name: str) -> tuple[int, int]:
        order = given[name].order if name in given else None
        return (-1 if order is None else order, places.get(name, -1))

    return ((name, values[name]) for name in sorted(names, key=rank))


@dataclass(frozen=True, slots=True)
class _Compiler:
    roots: frozenset[str]
    marker: Templated
    language: Language
    around: Surroundings
    findings: Findings

    def compile_input(self, value: JsonValue, path: str) -> Compiled:
        if not isinstance(value, dict) or not (self.marker.html or self.marker.literal):
            return self._compile(value, path)
        parts: dict[str, Compiled] = {}
        for key, part in value.items():
            if key in self.marker.literal or part is None:
                parts[key] = part
            else:
                parts[key] = self._compile(part, join(path, "value", key), html=key in self.marker.html)
        return parts

    def _compile(self, value: JsonValue, path: str, *, html: bool = False) -> Compiled:
        try:
            template = compile_template(value, engine=self.language, path=path, html=html, quoting=self.marker.guarded)
        except TemplateError as error:
            self.findings.take(error.faults)
            return None
        allowed = INSTRUCTION_ROOTS if self.marker.guarded else self.roots
        if self.marker.guarded:
            inspect_instruction(template, path, self.findings)
        else:
            inspect_roots(template, allowed, path, self.findings)
        inspect_references(template, allowed, self.around, path, self.findings)
        if self.language == "liquid":
            inspect_braces(value, path, self.findings)
        return template
