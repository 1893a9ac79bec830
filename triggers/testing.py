"""Test runs: one action of a workflow at a time, on an event that is given or that has come before.

Nothing is stored, sent or asked outside: the trigger is held against the event as dispatch would, every other step is
mocked by its own module.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import sqlalchemy as sa

from loops.definition import CompiledWorkflow, compile_workflow, parse_workflow
from loops.definition.findings import nearest, shown
from loops.errors import DeliveryError, RequestError
from loops.event import Event, JsonValue, event_json
from loops.ports import Clock, Reader
from loops.projects import project_filters
from loops.runs.testing import ActionTested, Sample, Setting, StepTester
from loops.store import workflows as store
from loops.threads import off_loop
from triggers.audience import Audience
from triggers.brakes import Rules
from triggers.definitions import listener_of_draft
from triggers.hearing import explain_heard
from triggers.keys import Key
from triggers.matcher import Listener
from triggers.names import other_names
from triggers.own_output import OWN_APP, says_own_app
from triggers.past import PastDelivery, find_past, past_events
from triggers.sample import read_sample, with_event
from triggers.source import Source
from triggers.verdict import Verdict, unverified_reason
from triggers.webhook.event import SOURCE as WEBHOOK

GITHUB = "github"
_UNHEARD = frozenset({"project", "trigger"})
_STARTED_ALONE = frozenset({"manual", "schedule"})
NO_CALLS = "a test run never reaches outside: a model, a chat or a mail server that it called would act for real"


@dataclass(frozen=True, slots=True)
class Ask:
    """What is to be tested: an action (None: the trigger), on `globals` or on the event of a delivery, by our id or the
    sender's. `mock` is false where somebody asks for real calls."""

    action: str | None = None
    globals: JsonValue = None
    delivery: str | None = None
    mock: bool = True


@dataclass(frozen=True, slots=True)
class _Past:
    """A delivery's events, the other names of the repository that they are about, and why events are own output, by
    uuid."""

    past: PastDelivery
    events: list[Event]
    former: tuple[str, ...]
    own: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Judged:
    """A verdict on an event, and what there is to say beside it."""

    event: Event
    verdict: Verdict
    notes: tuple[str, ...] = ()


class WorkflowTester:
    """Raises NotFound, DefinitionError for a document that cannot be saved, RequestError for what is asked wrongly, and
    Conflict for a delivery that cannot be read again."""

    def __init__(
        self,
        steps: StepTester,
        reader: Reader,
        clock: Clock,
        sources: Mapping[str, Source],
        audience: Audience,
        mask: Callable[[str], str] = lambda text: text,
    ) -> None:
        """`mask` blots out secrets in all that an answer says."""
        self._steps = steps
        self._reader = reader
        self._clock = clock
        self._sources = sources
        self._audience = audience
        self._mask = mask

    async def stored(self, project_id: str, workflow_id: str, ask: Ask) -> ActionTested:
        """Test a stored workflow as it stands, enabled or not."""
        row = await self._reader.read(lambda connection: store.get(connection, project_id, workflow_id))
        return await self._test(project_id, dict(row.definition), ask, row.id, row.version)

    async def document(self, project_id: str, document: JsonValue, ask: Ask) -> ActionTested:
        """Test a workflow that is not stored, as it would be in this project."""
        return await self._test(project_id, document, ask)

    async def _test(
        self, project_id: str, document: JsonValue, ask: Ask, workflow_id: str = "", version: int = 0
    ) -> ActionTested:
        if not ask.mock:
            hint = "leave mock_async_functions out, or set it to true; enable the workflow to let it act"
            raise RequestError(NO_CALLS, hint=hint, path="mock_async_functions")
        project = await self._reader.read(lambda connection: project_filters(connection, project_id))
        # Beside the event loop: a large document takes long.
        compiled = await off_loop(lambda: compile_workflow(parse_workflow(document, project), project))
        action_id = _action(compiled, ask.action)
        at_trigger = action_id == compiled.workflow.trigger.id
        listener = listener_of_draft(compiled, project, project_id, workflow_id, version)
        past = None if ask.delivery is None else await self._past(project_id, ask.delivery)
        if at_trigger:
            tested = await self._trigger(compiled, listener, ask, past)
        else:
            sample = await self._sample(compiled, listener, ask, past)
            setting = Setting(compiled, project_id, workflow_id, sample)
            tested = replace(await self._steps.test(setting, action_id), event=_brief(sample.event))
        return tested.masked(self._mask)

    async def _past(self, project_id: str, wanted: str) -> _Past:
        past = await self._reader.read(lambda connection: find_past(connection, project_id, wanted))
        events = await past_events(past, self._sources, self._reader)
        return await self._reader.read(lambda connection: self._past_of(connection, past, events))

    def _past_of(self, connection: sa.Connection, past: PastDelivery, events: list[Event]) -> _Past:
        number, row = past.due.connection_id, past.connection
        former = other_names(connection, number, events[0]) if past.due.source == GITHUB and events else ()
        said = {one.uuid: self._audience.own_words(connection, one, row) for one in events if one.source != WEBHOOK}
        return _Past(past, events, former, {uuid: own for uuid, own in said.items() if own is not None})

    async def _sample(self, compiled: CompiledWorkflow, listener: Listener, ask: Ask, past: _Past | None) -> Sample:
        """What happened, for an action behind the trigger."""
        if past is None:
            now = self._clock.now()
            try:
                return await off_loop(lambda: read_sample(ask.globals, compiled, now, at_trigger=False))
            except DeliveryError as error:
                raise RequestError(error.message, hint=error.hint, path="globals.request") from error
        judged = await off_loop(lambda: self._chosen(compiled, listener, past))
        return with_event(ask.globals, compiled, judged.event, at_trigger=False)

    async def _trigger(
        self, compiled: CompiledWorkflow, listener: Listener, ask: Ask, past: _Past | None
    ) -> ActionTested:
        try:
            # Filters may hold slow patterns: a thread of their own keeps them off the event loop.
            return await off_loop(lambda: self._judged(compiled, listener, ask, past))
        except DeliveryError as error:
            told = {
                "code": error.code,
                "message": error.message,
                "path": _input_path(compiled, error),
                "hint": error.hint,
            }
            return replace(_tested(compiled, "error"), reason=error.message, error=told)

    def _judged(self, compiled: CompiledWorkflow, listener: Listener, ask: Ask, past: _Past | None) -> ActionTested:
        now = self._clock.now()
        if past is None:
            sample = read_sample(ask.globals, compiled, now, at_trigger=True)
            own = OWN_APP if says_own_app(sample.event) else None
            judged = self._judge(compiled, listener, sample.event, own=own)
        else:
            judged = self._chosen(compiled, listener, past)
            sample = with_event(ask.globals, compiled, judged.event, at_trigger=True)
        return _as_tested(compiled, judged, sample)

    def _chosen(self, compiled: CompiledWorkflow, listener: Listener, past: _Past) -> _Judged:
        """Of a delivery's events the first of those that get furthest."""
        judged = [self._judge_past(compiled, listener, event, past) for event in past.events]
        return max(judged, key=lambda one: (one.verdict.passed, one.verdict.stage not in _UNHEARD))

    def _judge_past(self, compiled: CompiledWorkflow, listener: Listener, event: Event, past: _Past) -> _Judged:
        kind = compiled.workflow.trigger.config.type
        stopped = ""
        if kind in _STARTED_ALONE:
            stopped = "its trigger is started by no delivery"
        elif kind == WEBHOOK and past.past.settings.get("workflow") != listener.key:
            stopped = "its trigger is a webhook: it hears what is sent to its own address alone"
        if stopped:
            return _Judged(event, Verdict(listener.key, listener.version, "trigger", passed=False, reason=stopped))
        return self._judge(compiled, listener, event, past.former, past.own.get(event.uuid))

    def _judge(
        self,
        compiled: CompiledWorkflow,
        listener: Listener,
        event: Event,
        former: tuple[str, ...] = (),
        own: str | None = None,
    ) -> _Judged:
        """As dispatch would, but for brakes that count what came before. `own` says why the event is own output."""
        if compiled.workflow.trigger.config.type in _STARTED_ALONE:
            reason = "its trigger lets everything pass"
            return _Judged(event, Verdict(listener.key, listener.version, "start", passed=True, reason=reason))
        verdict = explain_heard(listener, listener.project_id, event, former)
        if not verdict.passed:
            return _Judged(event, verdict)
        if own is not None:
            return _Judged(event, replace(verdict, stage="own_output", passed=False, reason=own))
        if not event.verified and not listener.allows_unverified and compiled.writes:
            reason = unverified_reason(compiled.writes)
            return _Judged(event, replace(verdict, stage="unverified", passed=False, reason=reason))
        return _Judged(event, verdict, tuple(_brake_notes(listener, event, self._clock)))


def _action(compiled: CompiledWorkflow, wanted: str | None) -> str:
    ids = [action.id for action in compiled.workflow.actions]
    if wanted is None:
        return compiled.workflow.trigger.id
    if wanted not in ids:
        hint = nearest(wanted, ids) or f"there are: {', '.join(map(shown, ids))}"
        raise RequestError(f'there is no action "{shown(wanted)}"', hint=hint, path="current_action_id")
    return wanted


def _brake_notes(listener: Listener, event: Event, clock: Clock) -> list[str]:
    return [*_mask_notes(listener, event, clock), *_key_notes(listener, event, clock)]


def _key_notes(listener: Listener, event: Event, clock: Clock) -> list[str]:
    """By what the brakes would count the event."""
    rules, told = listener.brakes or Rules(), event_json(event)
    notes: list[str] = []
    for rule in (rules.rate_limit, rules.debounce, rules.overlap):
        if rule is None:
            continue
        key = rule.key.of(told, clock.now())
        by = f"its key is {key.shown!r}" if key.shown else "" if key.note else "all events count together"
        by = "; ".join(filter(None, (by, key.note)))
        notes.append(f"{rule.key.path}: {by}; what was counted before is not looked at")
    return notes


def _mask_notes(listener: Listener, event: Event, clock: Clock) -> list[str]:
    if listener.mask is None:
        return []
    key = listener.mask.key(event_json(event), clock.now())
    if not isinstance(key, Key):
        return [key.reason]
    return [f"trigger_masking: its hash is {key.shown!r}; what was counted under it before is not looked at"]


def _as_tested(compiled: CompiledWorkflow, judged: _Judged, sample: Sample) -> ActionTested:
    """A verdict as the outcome of the trigger. A filter that could not be evaluated is an error."""
    verdict = judged.verdict
    broken = next((one for one in verdict.compared if one.error and not one.passed), None)
    status = "success" if verdict.passed else "error" if broken is not None else "skipped"
    tested = _tested(compiled, status)
    error: Mapping[str, JsonValue] | None = None
    if broken is not None and not verdict.passed:
        path = f"{_place(compiled)}.config.filters"
        error = {"code": "filter.failed", "message": broken.words(), "path": path, "hint": "mend the filter"}
    variables = {**compiled.workflow.initial_variables(), **sample.variables}
    stamp = sample.event.timestamp.isoformat()
    return replace(
        tested,
        following=compiled.workflow.next_action(tested.action) if verdict.passed else None,
        reason=verdict.reason,
        variables=variables,
        log=tuple({"at": stamp, "text": note} for note in judged.notes),
        error=error,
        verdict=verdict.as_json(),
        event=_brief(sample.event),
    )


def _tested(compiled: CompiledWorkflow, status: str) -> ActionTested:
    trigger = compiled.workflow.trigger
    return ActionTested(trigger.id, trigger.type, trigger.name, status)  # type: ignore[arg-type]  # one of the three words


def _place(compiled: CompiledWorkflow) -> str:
    return f"actions[{compiled.workflow.actions.index(compiled.workflow.trigger)}]"


def _input_path(compiled: CompiledWorkflow, error: DeliveryError) -> str:
    """Where the trigger's template stands that made no event of a request: the error names the input, or a place in
    the trigger."""
    config = f"{_place(compiled)}.config"
    if error.path.startswith("trigger.config"):
        return error.path.replace("trigger.config", config, 1)
    return f"{config}.inputs.{error.path}" if error.path else f"{config}.inputs"


def _brief(event: Event) -> Mapping[str, JsonValue]:
    return {"uuid": event.uuid, "event": event.name, "source": event.source, "distinct_id": event.distinct_id}
