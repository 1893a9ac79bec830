"""What templates refer to: names that exist, and in an instruction nothing but variables."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import JsonValue

from loops.definition.findings import EVENT_TEXT, Findings, nearest, shown
from loops.expressions import Template

INSTRUCTION_ROOTS = frozenset({"variables"})
_REFERENCE = re.compile(r"(variables|steps)(?:\.([A-Za-z_$][\w$]*)|\['([^'\\]*)'\])", re.ASCII)
_PROPERTY = re.compile(r"event\.properties\.([A-Za-z_$][\w$]*)", re.ASCII)
_HOG_IN_LIQUID = re.compile(r"(?<![{%])\{\s*(?:variables|event|person|groups|steps|payload)\b[^{}]*\}(?!\})")
_INSTEAD = MappingProxyType(
    {
        "event": "say in words which property of the triggering event to read; the run is given the whole event",
        "person": "say in words what to read of the person in the triggering event",
        "groups": "say in words what to read of the triggering event",
        "steps": "let the step's output_variable store it, and write {variables.<key>}",
        "payload": "let the step's output_variable store it, and write {variables.<key>}",
    }
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What templates of a workflow may refer to: its actions and its variables. Names that begin with one of `spread`
    may be set by a step that spreads its result."""

    actions: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    spread: tuple[str, ...] = ()

    def declares(self, variable: str) -> bool:
        return variable in self.variables or variable.startswith(self.spread)


def inspect_roots(template: Template, allowed: Iterable[str], path: str, findings: Findings) -> None:
    """Refuse names that a template here has no value for."""
    known = sorted(allowed)
    for root in sorted(template.roots.difference(known)):
        hint = nearest(root, known) or f"available: {', '.join(known)}"
        findings.refuse(path, f"{shown(root)} is not available in this template", hint)


def inspect_instruction(template: Template, path: str, findings: Findings) -> None:
    """Refuse everything but variables: what others wrote would be read as part of the instruction."""
    for root in sorted(template.roots - INSTRUCTION_ROOTS):
        used = sorted(one for one in template.paths if re.split(r"[.\[]", one, maxsplit=1)[0] == root)
        first = used[0] if used else root
        hint = _INSTEAD.get(root, "write it out, or use {variables.<key>}")
        if found := _PROPERTY.fullmatch(first):
            hint = f"write instead: read the {found[1]} property of the triggering event"
        findings.refuse(
            path,
            f"{{{shown(first)}}} is refused: event text in a prompt is an instruction to whoever reads it",
            hint,
            EVENT_TEXT,
        )


def inspect_references(
    template: Template, allowed: frozenset[str], around: Surroundings, path: str, findings: Findings
) -> None:
    """Of the names that are allowed, refuse steps that do not exist, and warn of variables that nothing declares."""
    for text in sorted(template.paths):
        found = _REFERENCE.match(text)
        if found is None or found[1] not in allowed:
            continue
        root, name = found[1], found[2] or found[3] or ""
        if root == "steps" and name not in around.actions:
            findings.refuse(path, f'no action has the id "{shown(name)}"', nearest(name, around.actions))
        elif root == "variables" and not around.declares(name):
            hint = nearest(name, around.variables) or f'add {{"key": "{shown(name)}", "type": "string", "default": ""}}'
            findings.warn(path, f'the variable "{shown(name)}" is not declared', hint)


def inspect_braces(value: JsonValue, path: str, findings: Findings) -> None:
    """Warn of single braces in Liquid, which are text there."""
    if isinstance(value, str) and (found := _HOG_IN_LIQUID.search(value)):
        written = shown(found[0])
        findings.warn(path, f"{written} is sent as it stands: this field is written in Liquid", f"write {{{written}}}")
