"""A workflow with its filters and templates compiled, once for as long as it is used."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from loops.definition.effects import written_by
from loops.definition.findings import MASKS_NOBODY, Findings, join
from loops.definition.inputs import FUNCTIONS, SOURCES
from loops.definition.inputs.base import MASK_ROOTS
from loops.definition.inputs.compile import Compiled, compile_inputs
from loops.definition.references import Surroundings, inspect_roots
from loops.definition.schema.actions import Action, ActionShape, FunctionConfig
from loops.definition.schema.base import Kinds
from loops.definition.schema.parts import Masking, Variable
from loops.definition.schema.triggers import RequestedTrigger, Trigger, TriggerConfig
from loops.definition.workflow import Workflow
from loops.errors import DefinitionError, FilterError, TemplateError
from loops.event import JsonValue
from loops.expressions import Template, compile_template
from loops.filters import NO_PROJECT, Filter, ProjectFilters, compile_filter

_TEMPLATES = Kinds(
    "template",
    never={"template-source-webhook": "it belongs to a trigger of type webhook or manual", "template-webhook": ""},
    meant={"template-email": "an email is an action of type function_email"},
    prefix="template-",
)


@dataclass(frozen=True, slots=True)
class CompiledWorkflow:
    """What a run and the matcher need of a workflow.

    `filter` is what events are held against, None where the trigger's events are made for this workflow alone
    (schedule, manual, webhook); `mask` renders the hash of trigger_masking.
    """

    workflow: Workflow
    filter: Filter | None
    mask: Template | None
    compiled_inputs: Mapping[str, Mapping[str, Compiled]]

    @property
    def sources(self) -> frozenset[str]:
        """The sources whose events may start the workflow."""
        return self.workflow.trigger.config.sources

    @property
    def writes(self) -> tuple[str, ...]:
        """What its actions may change outside, in words; empty for a workflow that only reads and reports."""
        return tuple(told for action in self.workflow.actions if (told := written_by(action)) is not None)

    def inputs(self, action_id: str) -> Mapping[str, Compiled]:
        """An action's inputs, defaults filled in, in the order in which they are to be rendered: a template, a
        literal, or an object of both. KeyError if there is no such action; those without inputs have none."""
        return self.compiled_inputs[action_id]

    def render(self, action_id: str, scope: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """An action's inputs as values. Later ones see earlier ones as `inputs`. Raises TemplateError."""
        rendered: dict[str, JsonValue] = {}
        for name, compiled in self.inputs(action_id).items():
            rendered[name] = _render(compiled, {**scope, "inputs": rendered})
        return rendered


def _render(compiled: Compiled, scope: Mapping[str, JsonValue]) -> JsonValue:
    if isinstance(compiled, Template):
        return compiled.render(scope)
    if isinstance(compiled, Mapping):
        return {key: _render(part, scope) for key, part in compiled.items()}
    return compiled


def compile_workflow(workflow: Workflow, project: ProjectFilters = NO_PROJECT) -> CompiledWorkflow:
    """Compile a workflow that was parsed for this project. Raises DefinitionError only if it was not."""
    findings = Findings()
    around = surroundings(workflow.variables, workflow.actions)
    inputs: dict[str, Mapping[str, Compiled]] = {}
    for index, action in enumerate(workflow.actions):
        inputs[action.id] = compile_action(action, join("actions", index), around, findings)
    config = workflow.trigger.config
    trigger_path = join("actions", workflow.actions.index(workflow.trigger), "config")
    compiled = compile_trigger(config, trigger_path, findings, project)
    mask = compile_mask(workflow.trigger_masking, config, findings)
    if findings.faults:
        raise DefinitionError(findings.faults)
    return CompiledWorkflow(workflow, compiled, mask, inputs)


def surroundings(variables: Iterable[Variable], actions: Iterable[ActionShape]) -> Surroundings:
    """What templates may refer to."""
    actions = tuple(actions)
    return Surroundings(
        frozenset(action.id for action in actions),
        frozenset(variable.key for variable in variables),
        tuple(f"{output.key}_" for action in actions for output in action.output_variable if output.spread),
    )


def compile_action(action: Action, path: str, around: Surroundings, findings: Findings) -> Mapping[str, Compiled]:
    """The compiled inputs of an action that stands at `path`; none where it takes none or is faulty."""
    config, place = action.config, join(path, "config", "inputs")
    if isinstance(config, RequestedTrigger):
        return compile_inputs(SOURCES[config.type], config.inputs, place, around, findings)
    if not isinstance(config, FunctionConfig):
        return {}
    known = {name: schema for name, schema in FUNCTIONS.items() if schema.action_type == action.type}
    schema = known.get(config.template_id)
    if schema is None:
        findings.refuse(join(path, "config", "template_id"), *_TEMPLATES.words(config.template_id, list(known)))
        return {}
    return compile_inputs(schema, config.inputs, place, around, findings)


def compile_trigger(
    config: Trigger, path: str, findings: Findings, project: ProjectFilters = NO_PROJECT
) -> Filter | None:
    """What events are held against; None where none are, or where the filters are faulty."""
    filters = config.effective_filters()
    if filters is None:
        return None
    # A file that is checked by itself belongs to no project yet.
    if filters.get("filter_test_accounts") is True and project is not NO_PROJECT and not project.test_accounts:
        findings.warn(
            join(path, "filters", "filter_test_accounts"),
            "holds nothing back: the project has no filters that tell test accounts",
            "set them with PUT /api/projects/{project}/test-account-filters, or filter by a property",
        )
    try:
        return compile_filter(filters, path=join(path, "filters"), project=project)
    except FilterError as error:
        findings.take(error.faults)
        return None


_TRIGGER: TypeAdapter[Trigger] = TypeAdapter(TriggerConfig)


def listening_filter(config: Mapping[str, object], project: ProjectFilters = NO_PROJECT) -> Filter | None:
    """What a stored trigger's config is held against events with; None where no event starts it.

    Compiles nothing else of the workflow, as an index of many thousand needs only this. Raises DefinitionError.
    """
    try:
        filters = _TRIGGER.validate_python(config).effective_filters()
    except ValidationError as error:
        raise DefinitionError.at(
            "trigger.config", f"is not what this release reads: {error.errors()[0]['msg']}"
        ) from error
    return None if filters is None else compile_filter(filters, path="trigger.config.filters", project=project)


_MASKING: TypeAdapter[Masking | None] = TypeAdapter(Masking | None)


def listening_mask(masking: object, config: Mapping[str, object]) -> Masking | None:
    """A stored workflow's masking; None where it has none, or its trigger is never masked. Raises DefinitionError."""
    try:
        read = _MASKING.validate_python(masking)
        return read if read is not None and _TRIGGER.validate_python(config).maskable else None
    except ValidationError as error:
        raise DefinitionError.at(
            "trigger_masking", f"is not what this release reads: {error.errors()[0]['msg']}"
        ) from error


def compile_mask(masking: Masking | None, config: Trigger | None, findings: Findings) -> Template | None:
    """The template of the hash. `config` is the trigger's, if it could be read."""
    if masking is None:
        return None
    path = "trigger_masking.hash"
    try:
        template = compile_template(masking.hash, engine="hog", path=path)
    except TemplateError as error:
        findings.take(error.faults)
        return None
    inspect_roots(template, MASK_ROOTS, path, findings)
    if config is not None and not config.maskable:
        findings.warn("trigger_masking", f"has no effect: a trigger of type {config.type} is never masked")
    elif masking.threshold == 1:
        findings.warn("trigger_masking.threshold", "1 lets every match start a run", "leave it out, or take 2 or more")
    elif config is not None and not config.has_person and "person" in template.roots:
        findings.warn(
            path,
            f"reads the person, and a trigger of type {config.type} has none: nothing is masked",
            "use what its events have, such as {event.properties.repository}",
            MASKS_NOBODY,
        )
    return template
