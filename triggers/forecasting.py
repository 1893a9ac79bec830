"""A forecast of a workflow over what a project has received: read in parts beside the writer, judged beside the event
loop. What is in memory at once is one part, and what the brakes have to remember."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

import sqlalchemy as sa

from loops.definition import CompiledWorkflow, compile_workflow, parse_workflow
from loops.errors import RequestError
from loops.event import Event, JsonValue
from loops.ports import Clock, Reader
from loops.projects import project_filters
from loops.schedules.file import read_entries, split
from loops.schedules.timetable import Timing, timetable
from loops.scheduling import timing_of
from loops.store import connections, forecasts, projects
from loops.store import schedules as schedules_store
from loops.store import workflows as workflows_store
from loops.tasks.allowance import Limits, overridden
from loops.tasks.quota import WINDOW, QuotaLimits
from loops.threads import off_loop
from triggers.audience import Audience
from triggers.definitions import listener_of_draft
from triggers.forecast import Forecaster
from triggers.forecast_basis import Basis, TaskStep, basis_of, task_steps
from triggers.forecast_hearing import (
    Draft,
    Ears,
    Looked,
    events_of,
    heard_of,
    loaded,
    of_people,
    own_output,
    parts,
    sources_of,
    tell,
)
from triggers.forecast_quotas import Assumed, Tally
from triggers.forecast_turns import Turns
from triggers.matcher import Index, Listener
from triggers.names import RepositoryNames
from triggers.posthog.event import SOURCE as POSTHOG
from triggers.schedule.event import to_event
from triggers.source import Source
from triggers.webhook.event import SOURCE as WEBHOOK

MOST_DAYS = 90
BUDGET_SECONDS = 45.0
_MOST_OTHERS = 200_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would have happened in [since, until)."""

    workflow_id: str
    name: str
    since: datetime
    until: datetime
    looked: Looked
    tally: Tally
    steps: int
    basis: Basis
    limits: QuotaLimits
    notes: tuple[str, ...] = ()


class Forecasts:
    """Raises NotFound, DefinitionError for a document that cannot be saved, and RequestError for a period that is too
    long, or takes too long, and Busy where others are under way."""

    def __init__(
        self,
        reader: Reader,
        clock: Clock,
        sources: Mapping[str, Source],
        audience: Audience,
        limits: Limits,
        model: str,
    ) -> None:
        """`limits` are the installation's, in whose place a project may have others; `model` is its, empty where it has
        none."""
        self._reader = reader
        self._clock = clock
        self._sources = sources
        self._audience = audience
        self._limits = limits
        self._model = model
        self._turns = Turns()  # each takes a processor for itself

    async def stored(self, project_id: str, workflow_id: str, days: float) -> Forecast:
        """A forecast of a stored workflow as it stands, enabled or not."""
        row = await self._reader.read(lambda connection: workflows_store.get(connection, project_id, workflow_id))
        schedules = await self._reader.read(lambda c: schedules_store.of_workflow(c, workflow_id))
        timings = [timing_of(one) for one in schedules if one.status == "active"]
        own = await self._reader.read(lambda c: connections.named(c, project_id, WEBHOOK, workflow_id))
        draft = await self._draft(project_id, dict(row.definition), timings, row.id, row.version)
        return await self._made(replace(draft, connection_id=None if own is None else own.id), days)

    async def document(self, project_id: str, document: JsonValue, days: float) -> Forecast:
        """A forecast of a workflow that is not stored, as it would be in this project; its file may have schedules."""
        definition, given = split(document)
        of_loop = isinstance(document, dict) and document.get("origin_product") == "loops"
        entries = () if given is None else read_entries(given, of_loop=of_loop)
        timings = [one.timing for one in entries if one.status == "active"]
        return await self._made(await self._draft(project_id, definition, timings), days)

    async def _draft(
        self,
        project_id: str,
        document: JsonValue,
        timings: Sequence[Timing],
        workflow_id: str = "",
        version: int = 0,
    ) -> Draft:
        project = await self._reader.read(lambda connection: project_filters(connection, project_id))

        def compiled() -> tuple[CompiledWorkflow, Listener]:
            found = compile_workflow(parse_workflow(document, project), project)
            return found, listener_of_draft(found, project, project_id, workflow_id, version)

        return Draft(project_id, workflow_id, *(await off_loop(compiled)), timings)

    async def _made(self, draft: Draft, days: float) -> Forecast:
        if not 0 < days <= MOST_DAYS:
            raise RequestError(f"{days:g} days cannot be looked at", hint=f"up to {MOST_DAYS}", path="days")
        until = self._clock.now()
        since = until - timedelta(days=days)
        steps = task_steps(draft.compiled)
        async with self._turns.of(draft.project_id):
            basis, assumed = await self._reader.read(lambda c: self._reckoned(c, draft, steps, since))
            forecaster = Forecaster(draft.listener.mask, draft.listener.brakes, assumed)
            looked = Looked()
            notes = await self._held_against(draft, forecaster, (since, until), looked)
            tally = await off_loop(lambda: forecaster.close(until))
        name = draft.compiled.workflow.name
        return Forecast(
            draft.workflow_id, name, since, until, looked, tally, len(steps), basis, assumed.limits, tuple(notes)
        )

    def _reckoned(
        self, connection: sa.Connection, draft: Draft, steps: Sequence[TaskStep], since: datetime
    ) -> tuple[Basis, Assumed]:
        basis = basis_of(connection, draft.project_id, draft.workflow_id, steps, self._model)
        whole = overridden(self._limits, projects.quotas(connection, draft.project_id))
        limits = whole.tasks
        parallel = min((one.parallel for one in steps), default=limits.parallel)
        whose = (draft.project_id, draft.workflow_id)
        most = self._audience.subject_runs
        return basis, Assumed(
            tasks=len(steps),
            lasts=basis.lasts,
            limits=replace(limits, parallel=parallel),
            other_tasks=forecasts.tasks_of_others(connection, *whose, since - WINDOW, _MOST_OTHERS),
            tokens=basis.tokens,
            cost=Decimal(str(basis.cost or 0)),
            spending=whole.spending,
            others_spent=forecasts.spent_by_others(connection, *whose, since - WINDOW, _MOST_OTHERS),
            subject_runs=most,
            other_runs=forecasts.runs_of_others(connection, *whose, since - timedelta(hours=1), _MOST_OTHERS)
            if most
            else {},
        )

    async def _held_against(
        self, draft: Draft, forecaster: Forecaster, period: tuple[datetime, datetime], looked: Looked
    ) -> list[str]:
        """Tell the forecaster all that came; what there is to say of it."""
        kind = draft.compiled.workflow.trigger.config.type
        if kind == "manual":
            return ["its trigger is started by hand alone: nothing that came would have started it"]
        if kind == "schedule":
            await off_loop(lambda: _occur(draft, forecaster, period, looked))
            return [] if draft.timings else ["it has no schedule that is active, so nothing starts it"]
        if kind == WEBHOOK and draft.connection_id is None:
            return ["it has no address of its own yet, so nothing has been sent to it"]
        await self._deliveries(draft, forecaster, period, looked)
        if looked.unasked:
            told = (
                f"of {looked.unasked} events GitHub was not asked what their sender may do, as no loop wanted to know: "
                "actor_access is what the deliveries themselves say"
            )
            return [told]
        return []

    async def _deliveries(
        self, draft: Draft, forecaster: Forecaster, period: tuple[datetime, datetime], looked: Looked
    ) -> None:
        ears = Ears(Index(), RepositoryNames())
        ears.index.add(draft.listener)
        await self._reader.read(ears.names.refresh)
        sources, begun = sources_of(draft), time.monotonic()
        only = draft.connection_id if draft.listener.kind == WEBHOOK else None
        after: str | None = ""
        while after is not None:
            _stop_after(begun, looked)
            ahead = await self._reader.read(
                lambda c, after=after: forecasts.stretch(c, draft.project_id, sources, period, after, only)  # type: ignore[misc]
            )
            after = ahead.last
            for ids in parts(ahead.sizes):
                _stop_after(begun, looked)
                await self._part(draft, forecaster, ears, ids, looked)

    async def _part(self, draft: Draft, forecaster: Forecaster, ears: Ears, ids: Sequence[str], looked: Looked) -> None:
        came = await self._reader.read(lambda connection: loaded(connection, ears, ids))
        if came and came[0].due.source == POSTHOG:
            read = await off_loop(lambda: [(one, events_of(self._sources, one, ears, looked)) for one in came])
            found = await self._reader.read(lambda connection: of_people(connection, draft, ears, read))
            heard = await off_loop(lambda: heard_of(draft, ears, found, looked))
        else:
            heard = await off_loop(
                lambda: heard_of(
                    draft, ears, ((one, events_of(self._sources, one, ears, looked)) for one in came), looked
                )
            )
        some = any(one.matches.passed or one.matches.missed for one in heard)
        own = (
            await self._reader.read(lambda connection: own_output(connection, self._audience, heard)) if some else set()
        )
        await off_loop(lambda: tell(draft, forecaster, heard, own))


def _stop_after(begun: float, looked: Looked) -> None:
    """Raises RequestError where what has begun then takes too long."""
    if time.monotonic() - begun > BUDGET_SECONDS:
        told = (
            f"the forecast took longer than {BUDGET_SECONDS:g} s and was stopped after {looked.deliveries} deliveries"
        )
        raise RequestError(told, hint="ask for fewer days", path="days")


def _occur(draft: Draft, forecaster: Forecaster, period: tuple[datetime, datetime], looked: Looked) -> None:
    """The occurrences of its schedules in the period."""
    found: list[tuple[datetime, int, Event]] = []
    for number, timing in enumerate(draft.timings):
        table = timetable(timing)
        moments = table.latest(period[0], period[1], MOST_DAYS * 24)
        found += [(at, number, to_event(str(number), at, table.zone, late=False)) for at in moments]
    for at, _, event in sorted(found, key=lambda one: one[:2]):
        looked.events += 1
        forecaster.occur(at, event)
