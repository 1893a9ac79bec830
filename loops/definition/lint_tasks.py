"""Tasks that could not begin."""

from collections.abc import Iterator

from loops.definition.findings import join
from loops.definition.lint_subject import TASK, Subject
from loops.definition.workflow import Workflow
from loops.errors import Fault


def repositories_of(workflow: Workflow) -> set[str]:
    """The repositories that its tasks work on: what Outside may be asked about."""
    return {name for _path, name in _repositories(Subject(workflow))}


def out_of_reach(subject: Subject) -> Iterator[Fault]:
    """A repository that no connection may write to."""
    for path, name in _repositories(subject):
        told = subject.outside.repositories.get(name.lower())
        if told is not None:
            yield Fault(path, told[0], told[1])


def _repositories(subject: Subject) -> Iterator[tuple[str, str]]:
    for path, _action, config in subject.steps(TASK):
        given = config.inputs.get("repository")
        if given is not None and isinstance(given.value, str) and given.value:
            yield join(path, "repository"), given.value
