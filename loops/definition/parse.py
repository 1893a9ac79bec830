"""A JSON document to a Workflow, or to every fault it has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import Field, JsonValue

from loops.definition.brakes import Brakes, inspect_brakes
from loops.definition.compiled import compile_action, compile_mask, compile_trigger, surroundings
from loops.definition.findings import Findings, few_suggestions, join, nearest, shown
from loops.definition.limits import inspect_size
from loops.definition.plain import plain_object, without_server_keys
from loops.definition.references import Surroundings
from loops.definition.schema.actions import Action, ActionShape, TriggerAction
from loops.definition.schema.base import Shape
from loops.definition.schema.brakes import Debounce, Overlap, RateLimit
from loops.definition.schema.parts import Edge, Masking, NotBlank, Variable, inspect_variables
from loops.definition.schema.triggers import EventTrigger, TriggerConfig
from loops.definition.schema.validator import Validated, Validator
from loops.definition.validate import Node, inspect_graph
from loops.definition.workflow import Status, Workflow
from loops.errors import DefinitionError
from loops.filters import NO_PROJECT, ProjectFilters

T = TypeVar("T", bound=Shape)

_TRIGGER_ASKED_AGAIN = ("exit_on_trigger_not_matched", "exit_on_trigger_not_matched_or_conversion")


class _Head(Shape):
    """A workflow's own keys. The entries of the three lists are validated against their classes one by one."""

    name: Annotated[NotBlank, Field(max_length=400)]
    description: str = ""
    status: Status = "draft"
    origin_product: Literal["loops", "broadcasts"] | None = None
    exit_condition: Literal[
        "exit_only_at_end",
        "exit_on_conversion",
        "exit_on_trigger_not_matched",
        "exit_on_trigger_not_matched_or_conversion",
    ] = "exit_only_at_end"
    trigger_masking: Masking | None = None
    trigger_rate_limit: RateLimit | None = None
    trigger_debounce: Debounce | None = None
    trigger_overlap: Overlap | None = None
    conversion: dict[str, JsonValue] | None = None
    email_sending_rate_limit: JsonValue = None
    variables: list[JsonValue] = Field(default_factory=list)
    actions: list[JsonValue]
    edges: list[JsonValue] = Field(default_factory=list)

    def inspect(self, path: str, findings: Findings) -> None:
        if self.conversion and any(self.conversion.get(key) for key in ("filters", "events")):
            findings.refuse(join(path, "conversion"), "conversion goals are not supported yet", "leave it out")
        if self.email_sending_rate_limit:
            findings.refuse(
                join(path, "email_sending_rate_limit"),
                "is not supported yet",
                "use trigger_masking or trigger_rate_limit to send less",
            )

    @property
    def brakes(self) -> Brakes:
        return Brakes(self.trigger_rate_limit, self.trigger_debounce, self.trigger_overlap)


_HEAD: Validator[_Head] = Validator(_Head, spare={"name": "spare", "actions": []})
_VARIABLE: Validator[Variable] = Validator(Variable)
_ACTION: Validator[Action] = Validator(Action, spare={"id": "spare"})
_EDGE: Validator[Edge] = Validator(Edge)


def parse_workflow(document: JsonValue, project: ProjectFilters = NO_PROJECT) -> Workflow:
    """The workflow that a document describes. Raises DefinitionError with all its faults, each with path and mend.

    `project` is what the project that it is for gives to its filters.
    """
    with few_suggestions():
        return _parse(document, project)


def _parse(document: JsonValue, project: ProjectFilters) -> Workflow:
    findings = Findings()
    inspect_size(document, findings)
    plain = {} if findings.faults else plain_object(document, findings)
    if findings.faults:
        raise DefinitionError(findings.faults)
    kept = without_server_keys(plain, findings)
    read = _Read(kept, findings)
    further = Findings(findings)
    _inspect(read, further, project)
    findings.absorb(further)
    if findings.faults or read.head.value is None:
        raise DefinitionError(findings.faults)
    return read.workflow(read.head.value, findings)


class _Read:
    """A document validated against the schema part by part, so that one faulty part hides no other."""

    def __init__(self, document: dict[str, JsonValue], findings: Findings) -> None:
        self.document = document
        self.head = _HEAD.validate(document, "", findings)
        self.variables = _validate_each(_VARIABLE, document, "variables", findings)
        self.actions = _validate_each(_ACTION, document, "actions", findings)
        self.edges = _validate_each(_EDGE, document, "edges", findings)

    @property
    def trigger(self) -> TriggerConfig | None:
        found = (one.rest for one in self.actions)
        return next((action.config for action in found if isinstance(action, TriggerAction)), None)

    def nodes(self) -> Iterable[Node]:
        """The actions whose id can be read, whatever else is wrong with them."""
        for index, (raw, validated) in enumerate(zip(_entries(self.document, "actions"), self.actions, strict=True)):
            name, kind = (raw.get("id"), raw.get("type")) if isinstance(raw, dict) else (None, None)
            if isinstance(name, str) and name:
                rest = validated.rest
                known = (None, None) if rest is None else (rest.slots, rest.ends)
                yield Node(index, name, kind if isinstance(kind, str) else "", *known)

    def workflow(self, head: _Head, findings: Findings) -> Workflow:
        return Workflow(
            name=head.name,
            description=head.description,
            status=head.status,
            origin_product=head.origin_product,
            exit_condition=head.exit_condition,
            trigger_masking=head.trigger_masking,
            brakes=head.brakes,
            variables=tuple(_values(self.variables)),
            actions=tuple(_values(self.actions)),
            edges=tuple(_values(self.edges)),
            document=self.document,
            warnings=tuple(findings.warnings),
        )


def _entries(document: Mapping[str, JsonValue], key: str) -> list[JsonValue]:
    given = document.get(key)
    return given if isinstance(given, list) else []


def _validate_each(
    validator: Validator[T], document: Mapping[str, JsonValue], key: str, findings: Findings
) -> list[Validated[T]]:
    return [validator.validate(raw, join(key, index), findings) for index, raw in enumerate(_entries(document, key))]


def _values(validated: Iterable[Validated[T]]) -> Iterable[T]:
    return (one.value for one in validated if one.value is not None)


def _placed(key: str, validated: Sequence[Validated[T]]) -> list[tuple[str, T]]:
    return [(join(key, index), one.rest) for index, one in enumerate(validated) if one.rest is not None]


def _inspect(read: _Read, findings: Findings, project: ProjectFilters) -> None:
    actions, edges, variables = (
        _placed("actions", read.actions),
        _placed("edges", read.edges),
        _placed("variables", read.variables),
    )
    if read.head.rest is not None:
        _inspect_head(read.head.rest, read.trigger, findings)
    for path, variable in variables:
        variable.inspect(path, findings)
    inspect_variables(_entries(read.document, "variables"), findings)
    around = surroundings((variable for _, variable in variables), (action for _, action in actions))
    for path, action in actions:
        action.inspect(path, findings)
        _inspect_outputs(action, path, around, findings)
        compile_action(action, path, around, findings)
        if isinstance(action, TriggerAction):
            compile_trigger(action.config, join(path, "config"), findings, project)
    for path, edge in edges:
        edge.inspect(path, findings)
    _inspect_graph(read, findings)


def _inspect_head(head: _Head, trigger: TriggerConfig | None, findings: Findings) -> None:
    head.inspect("", findings)
    compile_mask(head.trigger_masking, trigger, findings)
    inspect_brakes(head.brakes, trigger, findings)
    if isinstance(trigger, EventTrigger) and head.exit_condition in _TRIGGER_ASKED_AGAIN:
        findings.refuse(
            "exit_condition", f'"{head.exit_condition}" is not supported yet', 'use "exit_only_at_end" or leave it out'
        )


def _inspect_outputs(action: ActionShape, path: str, around: Surroundings, findings: Findings) -> None:
    for output in action.output_variable:
        if not output.spread and output.key not in around.variables:
            findings.warn(
                join(path, "output_variable"),
                f'sets the variable "{shown(output.key)}", which is not declared',
                nearest(output.key, around.variables) or "add it to variables",
            )


def _inspect_graph(read: _Read, findings: Findings) -> None:
    nodes = list(read.nodes())
    edges = [(index, one.rest) for index, one in enumerate(read.edges) if one.rest is not None]
    lists = all(isinstance(read.document.get(key, []), list) for key in ("actions", "edges"))
    whole = lists and len(nodes) == len(read.actions) and len(edges) == len(read.edges)
    inspect_graph(nodes, edges, findings, whole=whole)
