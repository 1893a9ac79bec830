"""What a task names and its project may not have: connectors and skills. Asked where a workflow is saved, and again
where a task is created."""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from loops.connections.mcp import is_enabled
from loops.definition import Workflow
from loops.definition.findings import join, nearest
from loops.definition.inputs.base import connection_number
from loops.definition.lint_subject import TASK
from loops.definition.schema.actions import FunctionConfig
from loops.errors import Fault
from loops.store import connections, skills
from loops.tasks.service import Unfit

if TYPE_CHECKING:
    from sqlalchemy import Connection

_NOT_SHARED = "MCP server(s) not shared with the project or disabled: {}"
_SEE_CONNECTORS = "loops integrations list --kind mcp shows those that can be named"
_SEE_SKILLS = "loops skills list shows those of the project"


def connectors_lacking(connection: "Connection", project_id: str, wanted: Sequence[str]) -> list[str]:
    """Those of these connectors that the project does not have, or that are disabled."""
    there = (
        {one.id for one in connections.listed(connection, project_id, "mcp") if is_enabled(one.config)}
        if wanted
        else set()
    )
    return [one for one in wanted if connection_number(one) not in there]


def lacking(
    connection: "Connection", project_id: str, connectors: Sequence[str], named: Sequence[str], repository: str
) -> Unfit | None:
    """Fills Lacking: skills that are not in the project's store may lie in the repository."""
    missing = connectors_lacking(connection, project_id, connectors)
    if missing:
        return Unfit(_NOT_SHARED.format(_listed(missing)), _SEE_CONNECTORS)
    unknown = _unknown(named, skills.names(connection, project_id) if named and not repository else named)
    if unknown:
        return Unfit(f"skill(s) not in the project: {_listed(unknown)}", _SEE_SKILLS)
    return None


def named_faults(
    connection: "Connection", project_id: str, workflow: Workflow
) -> tuple[tuple[Fault, ...], tuple[Fault, ...]]:
    """Faults and warnings for what the tasks of a workflow name, at the input that names it."""
    faults: list[Fault] = []
    warnings: list[Fault] = []
    for path, config in task_steps(workflow):
        missing = connectors_lacking(connection, project_id, _names(config, "connectors"))
        if missing:
            faults.append(Fault(join(path, "connectors"), _NOT_SHARED.format(_listed(missing)), _SEE_CONNECTORS))
        named = _names(config, "skills")
        known = skills.names(connection, project_id) if named else []
        unknown = _unknown(named, known)
        if unknown and _names(config, "repository"):
            words = (
                f"not in the project: {_listed(unknown)}; they have to lie in the repository's .claude/skills or skills"
            )
            warnings.append(Fault(join(path, "skills"), words))
        elif unknown:
            hint = nearest(unknown[0], known) or _SEE_SKILLS
            faults.append(Fault(join(path, "skills"), f"skill(s) not in the project: {_listed(unknown)}", hint))
    return tuple(faults), tuple(warnings)


def task_steps(workflow: Workflow) -> Iterator[tuple[str, FunctionConfig]]:
    """The steps of a workflow that create a task, each with the place of its inputs."""
    for index, action in enumerate(workflow.actions):
        config = action.config
        if isinstance(config, FunctionConfig) and config.template_id == TASK:
            yield join("actions", index, "config", "inputs"), config


def _names(config: FunctionConfig, name: str) -> list[str]:
    """What an input lists, or the one thing that it says."""
    given = config.inputs.get(name)
    value = None if given is None else given.value
    return [str(one) for one in value] if isinstance(value, list) else [str(value)] if value else []


def _unknown(named: Sequence[str], known: Collection[str]) -> list[str]:
    return [one for one in named if one not in known]


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"
