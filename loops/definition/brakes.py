"""The brakes of a workflow's trigger: as its JSON has them, read from what is stored, and their keys checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from loops.definition.findings import MASKS_NOBODY, Findings, join
from loops.definition.inputs.base import MASK_ROOTS
from loops.definition.references import inspect_roots
from loops.definition.schema.brakes import Debounce, Overlap, RateLimit
from loops.definition.schema.triggers import Trigger
from loops.errors import DefinitionError, TemplateError
from loops.expressions import compile_template

RATE_LIMIT, DEBOUNCE, OVERLAP = "trigger_rate_limit", "trigger_debounce", "trigger_overlap"
BRAKES = (RATE_LIMIT, DEBOUNCE, OVERLAP)
"""The keys of a workflow that hold its brakes, in the order in which they are applied."""


@dataclass(frozen=True, slots=True)
class Brakes:
    """What holds back events of a trigger that got past its mask."""

    rate_limit: RateLimit | None = None
    debounce: Debounce | None = None
    overlap: Overlap | None = None


_RATE_LIMIT: TypeAdapter[RateLimit | None] = TypeAdapter(RateLimit | None)
_DEBOUNCE: TypeAdapter[Debounce | None] = TypeAdapter(Debounce | None)
_OVERLAP: TypeAdapter[Overlap | None] = TypeAdapter(Overlap | None)


def stored_brakes(definition: Mapping[str, object]) -> Brakes:
    """The brakes of a stored definition. Raises DefinitionError."""
    try:
        return Brakes(
            _RATE_LIMIT.validate_python(definition.get(RATE_LIMIT)),
            _DEBOUNCE.validate_python(definition.get(DEBOUNCE)),
            _OVERLAP.validate_python(definition.get(OVERLAP)),
        )
    except ValidationError as error:
        raise DefinitionError.at("", f"its brakes are not what this release reads: {_told(error)}") from error


def stored_overlap(definition: Mapping[str, object]) -> Overlap | None:
    """Its overlap policy alone. Raises DefinitionError."""
    try:
        return _OVERLAP.validate_python(definition.get(OVERLAP))
    except ValidationError as error:
        raise DefinitionError.at(OVERLAP, f"is not what this release reads: {_told(error)}") from error


def _told(error: ValidationError) -> str:
    return str(error.errors()[0]["msg"])


def inspect_brakes(brakes: Brakes, config: Trigger | None, findings: Findings) -> None:
    """Report what is wrong, or odd, about brakes. `config` is the trigger's, if it could be read."""
    for path, brake in zip(BRAKES, (brakes.rate_limit, brakes.debounce, brakes.overlap), strict=True):
        if brake is None:
            continue
        brake.inspect(path, findings)
        if config is not None and not config.maskable and path != OVERLAP:
            findings.warn(path, f"has no effect: a trigger of type {config.type} starts whenever it is asked to")
        elif brake.key is not None:
            _inspect_key(brake.key, join(path, "key"), config, findings)


def _inspect_key(text: str, path: str, config: Trigger | None, findings: Findings) -> None:
    try:
        template = compile_template(text, engine="hog", path=path)
    except TemplateError as error:
        findings.take(error.faults)
        return
    inspect_roots(template, MASK_ROOTS, path, findings)
    if config is not None and not config.has_person and "person" in template.roots:
        findings.warn(
            path,
            f"reads the person, and a trigger of type {config.type} has none: all events count together",
            "use what its events have, such as {event.properties.repository}",
            MASKS_NOBODY,
        )
