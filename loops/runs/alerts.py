"""When people are told that a loop fails, and that it works again: values and functions of them.

    a run failed     the first failure is told, and then at most one an hour, which counts what came in between
    a run completed  a failure that was told is followed by one notice that the loop works again
    an hour is over  failures that nobody was told of are, while the loop still fails

So alerts of a loop are an hour apart, each is followed by one recovery at most, however often it changes its mind.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

EVERY = timedelta(hours=1)
LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class Failures:
    """What is known of a loop's failures: whether its last run failed, how many have since one completed, and how many
    nobody was told of. `is_told` as long as somebody was told that it fails, and not yet that it works again; `told_at`
    is when somebody last was, `due_at` when the untold ones are to be."""

    is_failing: bool = False
    is_told: bool = False
    failures: int = 0
    untold: int = 0
    run_id: str = ""
    reason: str = ""
    failed_at: datetime | None = None
    told_at: datetime | None = None
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Failing:
    """To be told: this run failed, and so did `before` more since somebody was last told."""

    run_id: str
    reason: str
    before: int = 0


@dataclass(frozen=True, slots=True)
class Recovered:
    """To be told: the loop works again, after so many failures."""

    failures: int


def run_failed(
    known: Failures, run_id: str, reason: str, now: datetime, *, is_told: bool
) -> tuple[Failures, Failing | None]:
    """What is known after a run failed, and what is to be told. `is_told` where whoever is told of failures has been
    told of this one, by what the run itself sent."""
    begun = replace(
        known,
        is_failing=True,
        failures=known.failures + 1,
        run_id=run_id,
        reason=reason[:LONGEST_REASON],
        failed_at=now,
    )
    if is_told:
        # It counts as an alert where one was due: recoveries are told no more often than failures are.
        return (replace(begun, is_told=True, told_at=now) if _may_tell(known, now) else begun), None
    if _may_tell(known, now):
        return _told(begun, now), Failing(run_id, begun.reason, known.untold)
    due_at = now if known.told_at is None else known.told_at + EVERY
    return replace(begun, untold=known.untold + 1, due_at=due_at), None


def run_completed(known: Failures) -> tuple[Failures, Recovered | None]:
    """What is known after a run completed, and what is to be told. Failures that nobody was told of are told with the
    next one that is, unless they are told with the recovery."""
    recovered = Recovered(known.failures) if known.is_told else None
    untold = 0 if known.is_told else known.untold
    return replace(known, is_failing=False, is_told=False, failures=0, untold=untold, due_at=None), recovered


def hour_over(known: Failures, now: datetime) -> tuple[Failures, Failing | None]:
    """What is known once `due_at` has come, and what is to be told."""
    if not known.is_failing or not known.untold:
        return replace(known, due_at=None), None
    return _told(known, now), Failing(known.run_id, known.reason, known.untold - 1)


def _may_tell(known: Failures, now: datetime) -> bool:
    return known.told_at is None or now - known.told_at >= EVERY


def _told(known: Failures, now: datetime) -> Failures:
    return replace(known, is_told=True, untold=0, told_at=now, due_at=None)
