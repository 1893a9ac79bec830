"""What acts in a run: a claimed stretch of it, and one action of that, with what its templates read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from loops.event import JsonValue
from loops.runs import trace
from loops.runs.program import Program
from loops.runs.state import RunState
from loops.runs.variables import resolved
from loops.store.runs import Claimed


@dataclass(slots=True)
class Segment:
    """One claimed stretch of a run."""

    claimed: Claimed
    owner: str
    program: Program
    results: dict[str, JsonValue]
    scope: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Acting:
    """One action of a segment at work."""

    segment: Segment
    state: RunState
    action_id: str
    started: datetime
    lines: trace.StepLog

    def scope(self) -> dict[str, JsonValue]:
        """What the action's templates read."""
        results, state = self.segment.results, self.state
        return {
            **self.segment.scope,
            "variables": resolved(state.variables, results),
            "steps": results,
            "payload": None if state.previous is None else results.get(state.previous),
        }

    def scope_with(self, result: JsonValue, variables: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """What the templates of a later action would read if this one came to `result`."""
        results = {**self.segment.results, self.action_id: result}
        return {
            **self.segment.scope,
            "variables": resolved(variables, results),
            "steps": results,
            "payload": result,
        }
