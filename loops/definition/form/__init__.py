"""The canonical shape of a loop, and the form that a person edits it in.

A loop starts on something, creates an AI task, may send a message, and ends. What has this shape is shown as the values
of a form, and the values give the same loop again. What has anything else still runs; it is shown as changed, with
what the form could not show.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from loops.definition.brakes import DEBOUNCE, OVERLAP, RATE_LIMIT, Brakes, stored_brakes
from loops.definition.findings import Findings, join, shown
from loops.definition.form.starts import config_of, start_of
from loops.definition.form.steps import EMAIL, SLACK, TASK, notice_of, notice_step, task_config, task_of
from loops.definition.form.values import (
    NOTICE_NAMES,
    Debounce,
    Declared,
    LoopForm,
    Mask,
    Output,
    Overlap,
    RateLimit,
    StepNames,
)
from loops.definition.schema.actions import Action, ActionShape, ExitAction, FunctionConfig, TriggerAction
from loops.definition.schema.parts import Edge, Masking, Variable
from loops.errors import DefinitionError, Fault
from loops.event import JsonValue

__all__ = ["Changed", "LoopForm", "Shape", "document_of", "form_of", "shape_of"]

ORIGIN = "loops"
Shape = Literal["loop", "changed", "workflow"]

_ACTIONS: TypeAdapter[tuple[Action, ...]] = TypeAdapter(tuple[Action, ...])
_EDGES: TypeAdapter[tuple[Edge, ...]] = TypeAdapter(tuple[Edge, ...])
_VARIABLES: TypeAdapter[tuple[Variable, ...]] = TypeAdapter(tuple[Variable, ...])
_MASKING: TypeAdapter[Masking | None] = TypeAdapter(Masking | None)
_AT_END = "exit_only_at_end"


@dataclass(frozen=True, slots=True)
class Changed:
    """A workflow that is more, or other, than a loop: what of it no form could show, each with its path."""

    reasons: tuple[Fault, ...]


def shape_of(document: Mapping[str, Any]) -> tuple[Shape, tuple[Fault, ...]]:
    """Whether a stored workflow is a loop, was one and has been changed (and by what), or never was one."""
    if document.get("origin_product") != ORIGIN:
        return "workflow", ()
    form = form_of(document)
    return ("changed", form.reasons) if isinstance(form, Changed) else ("loop", ())


def document_of(form: LoopForm) -> dict[str, JsonValue]:
    """The workflow that the form stands for, as a draft."""
    steps: list[tuple[StepNames, dict[str, JsonValue]]] = [
        (form.start_names, {"type": "trigger", "config": config_of(form.start)}),
        (form.task_names, {"type": "function", "config": task_config(form.task), **_output_variable(form)}),
    ]
    if form.notice is not None:
        steps.append((form.notice_names, notice_step(form.notice)))
    end: dict[str, JsonValue] = {} if form.reason is None else {"reason": form.reason}
    steps.append((form.exit_names, {"type": "exit", "config": end}))
    edges: list[JsonValue] = [
        {"from": one.id, "to": other.id, "type": "continue"} for (one, _), (other, _) in pairwise(steps)
    ]
    masking: dict[str, JsonValue] = {} if form.mask is None else {"trigger_masking": _masking_json(form.mask)}
    return {
        "name": form.name,
        "description": form.description,
        "status": "draft",
        "origin_product": ORIGIN,
        "exit_condition": _AT_END,
        **masking,
        **_brakes_json(form),
        "variables": _variables_json(form),
        "actions": [{**_names_json(names), **step} for names, step in steps],
        "edges": edges,
    }


def _output_variable(form: LoopForm) -> dict[str, JsonValue]:
    found: list[JsonValue] = [{"key": one.key, "result_path": one.path} for one in form.task.outputs]
    return {"output_variable": found} if found else {}


def _variables_json(form: LoopForm) -> list[JsonValue]:
    declared: list[Output | Declared] = [*(one for one in form.task.outputs if one.type), *form.variables]
    return [
        {"key": one.key, "type": one.type, "default": one.default, **({"label": one.label} if one.label else {})}
        for one in declared
    ]


def _masking_json(mask: Mask) -> JsonValue:
    return {"hash": mask.hash, "ttl": mask.ttl, "threshold": mask.threshold}


def _brakes_json(form: LoopForm) -> dict[str, JsonValue]:
    brakes = {RATE_LIMIT: form.rate_limit, DEBOUNCE: form.debounce, OVERLAP: form.overlap}
    return {
        name: {key: value for key, value in asdict(brake).items() if value is not None}
        for name, brake in brakes.items()
        if brake is not None
    }


def _names_json(names: StepNames) -> dict[str, JsonValue]:
    told: dict[str, JsonValue] = {"id": names.id, "name": names.name}
    return {**told, "description": names.description} if names.description else told


def form_of(document: Mapping[str, Any]) -> LoopForm | Changed:
    """The form of a stored workflow, whose definition has passed every check; Changed where none can show it whole."""
    findings = Findings()
    try:
        actions = _ACTIONS.validate_python(document.get("actions") or ())
        edges = _EDGES.validate_python(document.get("edges") or ())
        variables = _VARIABLES.validate_python(document.get("variables") or ())
        masking = _MASKING.validate_python(document.get("trigger_masking"))
        brakes = stored_brakes(document)
    except ValidationError as error:
        return Changed((Fault("", f"it is not what this release reads: {error.errors()[0]['msg']}"),))
    except DefinitionError as error:
        return Changed(error.faults)
    _inspect_head(document, findings)
    chain = _Chain(actions, findings)
    if chain.complete:
        chain.inspect_edges(edges, findings)
        form = _read(document, chain, variables, masking, findings)
        form = None if form is None else _braked(form, brakes)
        if form is not None and not findings.faults:
            return form
    return Changed(tuple(findings.faults))


def _braked(form: LoopForm, brakes: Brakes) -> LoopForm:
    limit, debounce, overlap = brakes.rate_limit, brakes.debounce, brakes.overlap
    return replace(
        form,
        rate_limit=None if limit is None else RateLimit(limit.count, limit.period, limit.key),
        debounce=None if debounce is None else Debounce(debounce.quiet, debounce.longest, debounce.key),
        overlap=None if overlap is None else Overlap(overlap.policy, getattr(overlap, "maximum", None), overlap.key),
    )


def _inspect_head(document: Mapping[str, Any], findings: Findings) -> None:
    if document.get("exit_condition", _AT_END) != _AT_END:
        findings.refuse("exit_condition", f"a loop ends at its exit alone ({_AT_END})")
    for key in ("conversion", "email_sending_rate_limit"):
        if document.get(key):
            findings.refuse(key, "a loop has none")


class _Chain:
    """The four steps of a loop, each with its place, found among all actions."""

    def __init__(self, actions: Sequence[ActionShape], findings: Findings) -> None:
        self._found: dict[str, tuple[str, ActionShape]] = {}
        for index, action in enumerate(actions):
            path, part = join("actions", index), _part(action)
            if part is None:
                findings.refuse(path, f'a loop has no step of type {_kind(action)}: "{shown(action.id)}"')
            elif part in self._found:
                findings.refuse(path, f'a loop has one such step, and "{shown(action.id)}" is another')
            else:
                self._found[part] = (path, action)
                _inspect_step(action, part, path, findings)
        for part, words in _NEEDED.items():
            if part not in self._found:
                findings.refuse("actions", f"a loop has {words}")

    @property
    def complete(self) -> bool:
        return _NEEDED.keys() <= self._found.keys()

    def step(self, part: str) -> tuple[str, Any]:
        return self._found[part]

    def find(self, part: str) -> tuple[str, Any] | None:
        return self._found.get(part)

    def names(self, part: str) -> StepNames:
        action = self._found[part][1]
        return StepNames(action.id, action.name, action.description)

    def inspect_edges(self, edges: Iterable[Edge], findings: Findings) -> None:
        ids = [self._found[part][1].id for part in _ORDER if part in self._found]
        wanted = set(pairwise(ids))
        for index, edge in enumerate(edges):
            if edge.type != "continue" or (edge.source, edge.target) not in wanted:
                findings.refuse(join("edges", index), f"a loop goes one way: {' -> '.join(map(shown, ids))}")
            wanted.discard((edge.source, edge.target))
        for source, target in sorted(wanted):
            findings.refuse("edges", f"no edge leads from {shown(source)} to {shown(target)}")


_ORDER = ("start", "task", "notice", "exit")
_NEEDED: Mapping[str, str] = {"start": "a trigger", "task": f"a step with {TASK}", "exit": "an exit"}


def _kind(action: ActionShape) -> str:
    config = action.config
    return config.template_id if isinstance(config, FunctionConfig) else action.type


def _part(action: ActionShape) -> str | None:
    if isinstance(action, TriggerAction):
        return "start"
    if isinstance(action, ExitAction):
        return "exit"
    return {TASK: "task", SLACK: "notice", EMAIL: "notice"}.get(_kind(action))


def _inspect_step(action: ActionShape, part: str, path: str, findings: Findings) -> None:
    if action.on_error == "continue":
        findings.refuse(join(path, "on_error"), "a loop ends where a step fails")
    if any((action.filters or {}).values()):
        findings.refuse(join(path, "filters"), "the steps of a loop have no conditions")
    if action.output_variable and part != "task":
        findings.refuse(join(path, "output_variable"), "in a loop the task alone sets variables")


def _read(
    document: Mapping[str, Any],
    chain: _Chain,
    variables: Sequence[Variable],
    masking: Masking | None,
    findings: Findings,
) -> LoopForm | None:
    (start_path, trigger), (task_path, task), (_, end) = (chain.step(part) for part in _NEEDED)
    notice = chain.find("notice")
    declared = {one.key: one for one in variables}
    start = start_of(trigger.config, join(start_path, "config"), findings)
    if start is None:
        return None
    outputs = {one.key for one in task.output_variable}
    rest = (one for one in variables if one.key not in outputs)
    return LoopForm(
        name=str(document.get("name") or ""),
        description=str(document.get("description") or ""),
        start=start,
        task=task_of(task.config, task.output_variable, declared, task_path, findings),
        notice=None if notice is None else notice_of(notice[1].config, notice[0], findings),
        mask=None if masking is None else Mask(masking.hash, masking.ttl, masking.threshold),
        variables=tuple(Declared(one.key, one.type, one.default, one.label) for one in rest),
        reason=end.config.reason,
        start_names=chain.names("start"),
        task_names=chain.names("task"),
        notice_names=NOTICE_NAMES if notice is None else chain.names("notice"),
        exit_names=chain.names("exit"),
    )
