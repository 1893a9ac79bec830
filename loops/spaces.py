"""Spaces: where the runs of loops are listed together. A step names one as `<id>|<name>`; the id tells which it is."""

from collections.abc import Mapping

from loops.connections.uses import stored_inputs
from loops.definition.lint_subject import TASK


def space_id(given: str) -> str:
    """The id in `<id>|<name>`."""
    return given.partition("|")[0].strip()


def space_name(given: str) -> str:
    """The name in `<id>|<name>`; the id where it has none."""
    identity, _, name = given.partition("|")
    return name.strip() or identity.strip()


def space_of(definition: Mapping[str, object]) -> str | None:
    """The space that a workflow's first task with one names, as `<id>|<name>`."""
    for inputs in stored_inputs(definition, TASK):
        given = inputs.get("channel")
        if isinstance(given, str) and space_id(given):
            return given
    return None
