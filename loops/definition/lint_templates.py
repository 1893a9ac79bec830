"""Templates, the hash of the mask and the keys of brakes that read what events do not have."""

import re
from collections.abc import Iterator, Mapping

from loops.definition.brakes import BRAKES
from loops.definition.compiled import compile_action, surroundings
from loops.definition.findings import Findings, join, listed, nearest, shown
from loops.definition.inputs.compile import Compiled
from loops.definition.lint_subject import Subject
from loops.definition.vocabulary import EVENT_FIELDS, PROPERTIES
from loops.errors import Fault, TemplateError
from loops.expressions import Template, compile_template

_KEY = r"(?:\.([A-Za-z_$][\w$]*)|\['([^'\\]*)'\])"
_READ = re.compile(rf"event{_KEY}(?:{_KEY})?", re.ASCII)
_OF_ANY_OBJECT = frozenset({"size", "first", "last"})  # Liquid has them of whatever there is


def unknown_reads(subject: Subject) -> Iterator[Fault]:
    """Names below `event` that no event has, and properties that events of GitHub or Slack do not have."""
    known, names = _properties(subject)
    for path, template in _templates(subject):
        spared = _OF_ANY_OBJECT if template.engine == "liquid" else frozenset()
        for text in sorted(template.paths):
            found = _READ.match(text)
            if found is None:
                continue
            field, key = found[1] or found[2] or "", found[3] or found[4]
            if field not in EVENT_FIELDS and field not in spared:
                yield Fault(path, f"reads {shown(text)}, and no event has that: it is null", _field_meant(field))
            elif field == "properties" and key is not None and known and key not in known and key not in spared:
                said = f"reads {shown(text)}, and {names} has no such property: it is null"
                yield Fault(path, said, nearest(key, known) or f"it has {listed(known)}")


def _properties(subject: Subject) -> tuple[tuple[str, ...], str]:
    """What the events that are listened to have, and their names; nothing where others may have anything."""
    names = list(dict.fromkeys(one.name or "" for one in subject.events))
    if not names or not all(name in PROPERTIES for name in names):
        return (), ""
    return tuple(dict.fromkeys(key for name in names for key in PROPERTIES[name])), listed(names)


def _field_meant(field: str) -> str:
    if any(field in known for known in PROPERTIES.values()):
        return f"did you mean event.properties.{field}?"
    return nearest(field, EVENT_FIELDS) or f"it has {listed(EVENT_FIELDS)}; what was sent is in event.properties"


def _templates(subject: Subject) -> Iterator[tuple[str, Template]]:
    """Every template that an event is read by, each with its place."""
    workflow = subject.workflow
    around, told_already = surroundings(workflow.variables, workflow.actions), Findings()
    for index, action in enumerate(workflow.actions):
        place = join("actions", index)
        for name, compiled in compile_action(action, place, around, told_already).items():
            yield from _inside(compiled, join(place, "config", "inputs", name))
    yield from _keys(subject)


def _inside(compiled: Compiled, path: str) -> Iterator[tuple[str, Template]]:
    if isinstance(compiled, Template):
        yield path, compiled
    elif isinstance(compiled, Mapping):
        for key, part in compiled.items():
            yield from _inside(part, join(path, "value", key))


def _keys(subject: Subject) -> Iterator[tuple[str, Template]]:
    """The hash and the keys."""
    masking, brakes = subject.workflow.trigger_masking, subject.workflow.brakes
    sources = [] if masking is None else [("trigger_masking.hash", masking.hash)]
    for name, brake in zip(BRAKES, (brakes.rate_limit, brakes.debounce, brakes.overlap), strict=True):
        if brake is not None and brake.key is not None:
            sources.append((join(name, "key"), brake.key))
    for path, source in sources:
        try:
            yield path, compile_template(source, engine="hog", path=path)
        except TemplateError:  # refused elsewhere
            continue
