"""Inputs as a form holds them: their values alone."""

from collections.abc import Mapping

from loops.definition.findings import Findings, join
from loops.definition.schema.parts import Input
from loops.event import JsonValue

_NOT_SAID: tuple[JsonValue, ...] = (None, "")


def written_out(values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The inputs of the JSON; those that say nothing are left out."""
    return {name: {"value": value} for name, value in values.items() if value not in _NOT_SAID}


def written(inputs: Mapping[str, Input], path: str, findings: Findings, language: str = "hog") -> dict[str, JsonValue]:
    """The values of inputs that stand at `path`, those that say nothing left out. One that is written in another
    language than its own, or rendered out of order, is no input that a form can show."""
    for name, given in inputs.items():
        if given.templating not in (None, language):
            findings.refuse(join(path, name, "templating"), f"the form writes it in {language} alone")
        if given.order is not None:
            findings.refuse(join(path, name, "order"), "the form gives no input an order")
    return {name: given.value for name, given in inputs.items() if given.value not in _NOT_SAID}
