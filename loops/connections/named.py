"""Whether the connection that a message names can carry it: asked where a workflow is saved, where its step acts, and
where a person sends the message again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from loops.definition import Workflow
from loops.definition.findings import join
from loops.definition.inputs.base import connection_number
from loops.definition.schema.actions import FunctionConfig
from loops.errors import Fault
from loops.store import connections
from loops.store.connections import ConnectionRow

NAMES: Mapping[str, str] = {"slack": "Slack", "smtp": "SMTP"}
"""What each kind of connection over which messages leave is called."""

INPUTS: Mapping[str, str] = {"slack": "slack_workspace", "smtp": "from.integrationId"}
"""The input that names a connection of the kind."""

_MOST_LISTED = 10


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why nothing can leave over a connection, and what mends it. `alone` where the project has none of the kind, so
    that the message is for the page alone."""

    reason: str
    mend: str
    alone: bool = False


def unfit(connection: sa.Connection, project_id: str, kind: str, wanted: int | None) -> Unfit | None:
    """Why a message cannot leave over the connection `wanted`; None where it is one of the project, of this kind."""
    there = connections.listed(connection, project_id, kind)
    if any(one.id == wanted for one in there):
        return None
    if not there:
        mend = f"make one with: loops integrations create {kind} --name …, and put its id into {INPUTS[kind]}"
        return Unfit(f"this project has no {NAMES[kind]} connection", mend, alone=True)
    mend = f"put the id of one into {INPUTS[kind]}. {choices(kind, there)}"
    if wanted is None:
        return Unfit(f"no {NAMES[kind]} connection is named", mend)
    found = connections.get(connection, wanted)
    if found is None or found.project_id != project_id:
        return Unfit(f"this project has no connection {wanted}", mend)
    return Unfit(f"connection {wanted} ({found.name}) is of kind {found.kind}, not {kind}", mend)


def choices(kind: str, there: Sequence[ConnectionRow]) -> str:
    """The connections that would do: `Slack connections of this project: 2 (team), 5 (sales)`."""
    listed = ", ".join(f"{one.id} ({one.name})" for one in there[:_MOST_LISTED])
    more = f" and {len(there) - _MOST_LISTED} more" if len(there) > _MOST_LISTED else ""
    return f"{NAMES[kind]} connections of this project: {listed}{more}"


def connection_warnings(connection: sa.Connection, project_id: str, workflow: Workflow) -> tuple[Fault, ...]:
    """A warning for each step whose message would not leave, at the input that names the connection."""
    warnings = []
    for path, kind, wanted in _named(workflow):
        found = unfit(connection, project_id, kind, wanted)
        if found is not None:
            follows = "its message is shown on the page alone" if found.alone else "its step will fail"
            warnings.append(Fault(path, f"{found.reason}: {follows}", found.mend))
    return tuple(warnings)


def _named(workflow: Workflow) -> Iterator[tuple[str, str, int | None]]:
    """Each connection that a step sends over: the path of the input, its kind and the id."""
    for index, action in enumerate(workflow.actions):
        config = action.config
        if not isinstance(config, FunctionConfig):
            continue
        path = join("actions", index, "config", "inputs")
        if config.template_id == "template-slack":
            given = config.inputs.get("slack_workspace")
            yield join(path, "slack_workspace"), "slack", connection_number(given and given.value)
        elif config.template_id == "template-email":
            mail = config.inputs.get("email")
            sender = mail.value.get("from") if mail is not None and isinstance(mail.value, dict) else None
            number = sender.get("integrationId") if isinstance(sender, dict) else None
            yield join(path, "email", "value", "from", "integrationId"), "smtp", connection_number(number)
