"""The tools of an agent: one module a namespace, and one line each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loops.agent.notes import NoteStore
from loops.agent.proposals import Proposals
from loops.agent.tools.event import event_tools
from loops.agent.tools.finalize import FINALIZE, FieldType, Finalize
from loops.agent.tools.note import note_tools
from loops.agent.tools.propose import propose_tools
from loops.agent.tools.repo import repo_tools
from loops.agent.tools.shell import shell_tools
from loops.agent.tools.skill import Checkout, SkillBook, skill_tools
from loops.agent.tools.tool import Tool
from loops.event import JsonValue
from loops.tasks.workspace.workspace import Workspace

Switches = Mapping[str, Mapping[str, bool]]
"""`{namespace: {verb: bool}}`. A tool is off where its switch is false; a missing one is on."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What the tools of one task work on; a namespace whose resource is missing offers nothing. `connectors` are the
    tools of MCP servers, `checkout` the files of the task's repository. `begins` is what the agent of a later turn is
    told of them at its begin."""

    event: Mapping[str, JsonValue] | None = None
    notes: NoteStore | None = None
    workspace: Workspace | None = None
    skills: SkillBook | None = None
    connectors: Sequence[Tool] = ()
    checkout: Checkout | None = None
    proposals: Proposals | None = None
    begins: str = ""


NAMESPACES: Mapping[str, Callable[[Resources], Sequence[Tool]]] = {
    "connector": lambda given: given.connectors,
    "event": lambda given: event_tools(given.event) if given.event is not None else (),
    "note": lambda given: note_tools(given.notes) if given.notes is not None else (),
    "repo": lambda given: repo_tools(given.workspace) if given.workspace is not None else (),
    "shell": lambda given: shell_tools(given.workspace) if given.workspace is not None else (),
    "skill": lambda given: skill_tools(given.skills) if given.skills is not None else (),
    "propose": lambda given: propose_tools(given.proposals) if given.proposals is not None else (),
}


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools that one agent has, by name in alphabetical order, `finalize` among them."""

    tools: Mapping[str, Tool]
    finalize: Finalize


def toolbox(
    resources: Resources,
    switches: Switches | None = None,
    fields: Mapping[str, FieldType] | None = None,
    more: Sequence[Tool] = (),
) -> Toolbox:
    """The tools that are switched on, `more` of the caller's own, and `finalize`, which no switch reaches.

    `fields` are the structured fields that `finalize` asks for. The order never changes, so that a provider's prompt
    cache holds. Of two tools with one name the first stays.
    """
    offered = [
        tool
        for namespace, make in NAMESPACES.items()
        for tool in make(resources)
        if (switches or {}).get(namespace, {}).get(tool.spec.name.removeprefix(f"{namespace}_")) is not False
    ]
    finalize = Finalize(fields)
    named: dict[str, Tool] = {FINALIZE: finalize}
    for tool in [*offered, *more]:
        named.setdefault(tool.spec.name, tool)
    return Toolbox(dict(sorted(named.items())), finalize)
