"""The rules of the graph: what no single action or edge can tell."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from loops.definition.findings import Findings, nearest, shown
from loops.definition.schema.parts import Edge

_MOST_TOLD = 12


@dataclass(frozen=True, slots=True)
class Node:
    """An action as the graph sees it. `slots` and `ends` are None where its type could not be read."""

    index: int
    id: str
    type: str
    slots: int | None = None
    ends: bool | None = None


@dataclass(slots=True)
class _Graph:
    nodes: Mapping[str, Node]
    edges: Sequence[tuple[int, Edge]]
    leaving: dict[str, list[tuple[int, Edge]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, edge in self.edges:
            target = self.nodes.get(edge.target)
            if edge.source in self.nodes and target is not None and target.type != "trigger":
                self.leaving.setdefault(edge.source, []).append((index, edge))


def inspect_graph(
    nodes: Sequence[Node], edges: Sequence[tuple[int, Edge]], findings: Findings, *, whole: bool = True
) -> None:
    """Report every fault of the graph. `whole` is False when some action or edge could not be read: what they might
    have connected is then not called missing."""
    by_id = _unique(nodes, findings)
    graph = _Graph(by_id, edges)
    trigger = _one_trigger(nodes, findings)
    _inspect_endpoints(graph, findings)
    _inspect_branches(graph, findings)
    _inspect_cycles(graph, findings)
    if whole and trigger is not None:
        _inspect_reach(graph, trigger, findings)


def _unique(nodes: Sequence[Node], findings: Findings) -> dict[str, Node]:
    by_id: dict[str, Node] = {}
    for node in nodes:
        first = by_id.setdefault(node.id, node)
        if first is not node:
            findings.refuse(
                f"actions[{node.index}].id", f'"{shown(node.id)}" stands twice, first at actions[{first.index}]'
            )
    return by_id


def _one_trigger(nodes: Sequence[Node], findings: Findings) -> Node | None:
    triggers = [node for node in nodes if node.type == "trigger"]
    if len(triggers) == 1:
        return triggers[0]
    if triggers:
        places = ", ".join(f"actions[{node.index}]" for node in triggers)
        findings.refuse("actions", f"hold {len(triggers)} triggers, at {places}", "a workflow has exactly one")
    else:
        findings.refuse("actions", "hold no trigger", "a workflow has exactly one action of type trigger")
    return None


def _inspect_endpoints(graph: _Graph, findings: Findings) -> None:
    for index, edge in graph.edges:
        for key, name in (("from", edge.source), ("to", edge.target)):
            if name not in graph.nodes:
                findings.refuse(
                    f"edges[{index}].{key}", f'no action has the id "{shown(name)}"', nearest(name, graph.nodes)
                )
        target = graph.nodes.get(edge.target)
        if target is not None and target.type == "trigger":
            findings.refuse(f"edges[{index}].to", f'nothing leads to the trigger "{shown(target.id)}"')


def _inspect_branches(graph: _Graph, findings: Findings) -> None:
    for source, leaving in graph.leaving.items():
        node = graph.nodes[source]
        taken: dict[tuple[str, int | None], int] = {}
        for index, edge in leaving:
            path = f"edges[{index}]"
            if edge.type == "branch" and node.slots is not None:
                _inspect_slot(node, edge, path, findings)
            if node.ends:
                findings.warn(path, f'is never followed: "{shown(source)}" ends the run', "remove it")
                continue
            first = taken.setdefault((edge.type, edge.index), index)
            if first == index:
                continue
            if edge.type == "branch":
                findings.refuse(f"{path}.index", f'branch {edge.index} of "{shown(source)}" is taken by edges[{first}]')
            else:
                findings.warn(
                    path, f'is never followed: "{shown(source)}" goes on by edges[{first}]', "remove one of them"
                )


def _inspect_slot(node: Node, edge: Edge, path: str, findings: Findings) -> None:
    if not node.slots:
        findings.refuse(
            f"{path}.type", f'"{shown(node.id)}" has no branches: it is of type {node.type}', 'use the type "continue"'
        )
    elif edge.index is not None and edge.index >= node.slots:
        findings.refuse(
            f"{path}.index", f'"{shown(node.id)}" has no branch {edge.index}', f"allowed: 0 to {node.slots - 1}"
        )


def _inspect_cycles(graph: _Graph, findings: Findings) -> None:
    """Depth first without recursion: an edge to an action that is still on the way closes a cycle."""
    done: set[str] = set()
    for root in graph.nodes:
        if root in done:
            continue
        way, on_way = [root], {root}
        pending = [iter(graph.leaving.get(root, ()))]
        while pending:
            step = next(pending[-1], None)
            if step is None:
                pending.pop()
                on_way.discard(way[-1])
                done.add(way.pop())
                continue
            index, edge = step
            if edge.target in on_way:
                circle = [*way[way.index(edge.target) :], edge.target]
                findings.refuse(f"edges[{index}]", f"closes a cycle: {_told(circle)}", "a run never goes back")
            elif edge.target not in done:
                way.append(edge.target)
                on_way.add(edge.target)
                pending.append(iter(graph.leaving.get(edge.target, ())))


def _told(way: Sequence[str]) -> str:
    """A way as a message tells it, its middle left out when it is long."""
    names = [shown(name) for name in way]
    half = _MOST_TOLD // 2
    return " -> ".join(names if len(names) <= _MOST_TOLD else [*names[:half], "…", *names[-half:]])


def _inspect_reach(graph: _Graph, trigger: Node, findings: Findings) -> None:
    """A run that stops where no edge leaves would look like one that was forgotten, so its end must be said: whatever
    is reached goes on, or is of a type that ends the run."""
    reached = {trigger.id}
    waiting = [trigger.id]
    while waiting:
        name = waiting.pop()
        for _, edge in () if graph.nodes[name].ends else graph.leaving.get(name, ()):
            if edge.target not in reached:
                reached.add(edge.target)
                waiting.append(edge.target)
    for node in graph.nodes.values():
        if node.id not in reached:
            findings.warn(
                f"actions[{node.index}]", f'"{shown(node.id)}" is never reached', "lead an edge to it, or remove it"
            )
        elif node.ends is False and not _goes_on(graph.leaving.get(node.id, ())):
            findings.refuse(
                f"actions[{node.index}]",
                f'"{shown(node.id)}" leads nowhere: no continue edge leaves it',
                "lead one to the next action, or to an exit",
            )


def _goes_on(leaving: Iterable[tuple[int, Edge]]) -> bool:
    return any(edge.type == "continue" for _, edge in leaving)
