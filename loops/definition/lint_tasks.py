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


def stages_nothing(subject: Subject) -> Iterator[Fault]:
    """A task whose outputs would wait for a person, and that has none."""
    for path, _action, config in subject.steps(TASK):
        staged, repository = config.inputs.get("staged"), config.inputs.get("repository")
        if staged is not None and staged.value is True and (repository is None or not repository.value):
            hint = "name the repository that it works on, or leave staged out"
            yield Fault(join(path, "staged"), "nothing is written that could wait for a person", hint)


def _repositories(subject: Subject) -> Iterator[tuple[str, str]]:
    for path, _action, config in subject.steps(TASK):
        given = config.inputs.get("repository")
        if given is not None and isinstance(given.value, str) and given.value:
            yield join(path, "repository"), given.value
