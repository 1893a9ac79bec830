"""PostHog's deliveries of a batch: read ahead of all else, as whom they speak of is held before anything is decided.

One delivery may hold thousands of events. A batch looks ahead for as many as it has time for; a delivery that goes on
begins the next batch where this one stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from loops.event import Event
from loops.ports import Clock
from loops.store.connections import ConnectionRow
from loops.store.deliveries import Due
from triggers.people import hold_everybody, hold_people, remembered
from triggers.progress import Progress
from triggers.reading import Desk, Read, Unread
from triggers.repeats import repeats

MOST_EVENTS = 1000
"""How many events a batch looks ahead for at most."""

AT_ONCE = 100
"""How many are joined with their persons at once at most; between them the time is looked at."""

_FEWEST = 8
_SOON_SECONDS, _LATE_SECONDS = 0.01, 0.03
_READ_AT_ONCE = 8


@dataclass(slots=True)
class Part:
    """Of a delivery the events that one batch may decide: those from where it stands up to `end`."""

    read: Read
    progress: Progress
    end: int

    @property
    def events(self) -> list[Event]:
        """Those that are not decided yet."""
        meaning = self.read.meaning
        return meaning[self.progress.events : self.end] if isinstance(meaning, list) else []

    @property
    def is_last(self) -> bool:
        """Whether the delivery is settled with it."""
        return not isinstance(self.read.meaning, list) or self.end == len(self.read.meaning)


def part_of(read: Read, most: int = MOST_EVENTS) -> Part:
    """The next part of a delivery."""
    progress = Progress.of(read.due.progress)
    count = len(read.meaning) if isinstance(read.meaning, list) else 0
    return Part(read, progress, min(count, progress.events + most))


@dataclass(slots=True)
class Ahead:
    """What a batch may decide, by the delivery's id; of the last of them maybe a part. `behind` is read and has to
    wait, `unread` has to be read outside of the transaction, and `is_full` where more waits than was looked at."""

    parts: dict[str, Part] = field(default_factory=dict)
    behind: list[Read] = field(default_factory=list)
    unread: list[Read] = field(default_factory=list)
    is_full: bool = False

    @property
    def cut(self) -> Part | None:
        """The one that goes on after this batch."""
        return next((part for part in self.parts.values() if not part.is_last), None)


class Lookahead:
    """Works in the transactions of one dispatcher, batch after batch."""

    def __init__(self, desk: Desk, clock: Clock) -> None:
        self._desk = desk
        self._clock = clock
        self._most = MOST_EVENTS
        self.at_once = AT_ONCE
        """How many events may be decided before the time is looked at again."""
        self._holds_people = False  # all whom the batch changes

    def take(self, connection: sa.Connection, queue: Sequence[Due], rows: dict[int, ConnectionRow | None]) -> Ahead:
        """The deliveries in their order, and whom they change held: two batches that hold them bit by bit could wait
        for each other. Those behind one that goes on wait, for they may tell of the same persons."""
        ahead, left = Ahead(), self._most
        for start in range(0, len(queue), _READ_AT_ONCE):
            if left <= 0 or ahead.unread:
                break
            some = queue[start : start + _READ_AT_ONCE]
            reads = self._desk.read(connection, some, rows)
            for read in (reads[due.id] for due in some):
                if isinstance(read.meaning, Unread):
                    ahead.unread.append(read)
                elif left <= 0 or ahead.unread:
                    ahead.behind.append(read)
                else:
                    part = ahead.parts[read.due.id] = part_of(read, left)
                    left -= len(part.events)
        ahead.is_full = left <= 0 and (ahead.cut is not None or len(ahead.parts) < len(queue))
        told = [(part.read.due.project_id, part.events) for part in ahead.parts.values()]
        self._holds_people = hold_everybody(connection, (one for one in told if one[1]), self._clock.now())
        return ahead

    def decided(self, ahead: Ahead, events: int, settled: set[str]) -> None:
        """What became of them. The next batch looks ahead for twice as many events as this had time for, then for
        more."""
        parts = ahead.parts.values()
        if any(part.events for part in parts):
            self._most = min(MOST_EVENTS, max(AT_ONCE, 2 * events))
        elif ahead.is_full:
            self._most = min(MOST_EVENTS, 2 * self._most)
        self._desk.keep([*(part.read for part in parts if part.read.due.id not in settled), *ahead.behind])

    def took(self, seconds: float) -> None:
        """How long those took that were decided at once: of events that start runs far fewer fit."""
        if seconds > _LATE_SECONDS:
            self.at_once = max(_FEWEST, self.at_once // 2)
        elif seconds < _SOON_SECONDS:
            self.at_once = min(AT_ONCE, self.at_once * 2)

    def joined(
        self, connection: sa.Connection, read: Read, events: list[Event]
    ) -> tuple[list[Event], Mapping[str, str]]:
        """The events with their persons and groups, and which of them another delivery has brought, by uuid."""
        due, now = read.due, self._clock.now()
        came = repeats(connection, due.project_id, due.id, events)
        new = [event for event in events if event.uuid not in came]
        if not new:
            return events, came
        with connection.begin_nested():
            if not self._holds_people:
                hold_people(connection, due.project_id, new, now)
            known = {event.uuid: event for event in remembered(connection, due.project_id, new, read.settings, now)}
        return [known.get(event.uuid, event) for event in events], came
