"""What has to be known of an event before it is decided: who hears it, whether it is ours, what its sender may do."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from loops.connections.github import GitHubClients
from loops.event import Event
from loops.store.connections import ConnectionRow
from loops.store.deliveries import Due
from loops.store.github import events_that_ran
from triggers.definitions import Definitions
from triggers.hearing import hear, turns_on_access
from triggers.matcher import Matches
from triggers.own_output import OwnOutput
from triggers.properties import amended
from triggers.rights import Facts, Question, Rights

_GITHUB = "github"
# Where what a run writes comes back as an event.
_ANSWERING = frozenset({_GITHUB, "slack"})
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Heard:
    """An event with those who hear it. `own` says why it is own output; `facts` were asked for and are in the event."""

    event: Event
    matches: Matches
    own: str | None = None
    facts: Facts | None = None


class Audience:
    """Works in the transaction that decides, and asks nobody: what has to be asked comes back as a question."""

    def __init__(
        self,
        definitions: Definitions,
        rights: Rights,
        own: OwnOutput,
        clients: GitHubClients,
        subject_hourly_runs: int,
    ) -> None:
        """`subject_hourly_runs` is how many events of one subject may start runs within an hour; 0 for any number."""
        self._definitions = definitions
        self.rights = rights
        self._own = own
        self._clients = clients
        self._most = subject_hourly_runs

    def of(self, connection: sa.Connection, due: Due, event: Event, row: ConnectionRow | None) -> Heard | Question:
        """Who hears the event. A question where a loop's decision turns on an answer that is not known yet."""
        index = self._definitions.index
        former = self._definitions.names.see(due.connection_id, event) if due.source == _GITHUB else ()
        matches = hear(index, due.project_id, event, former)
        if not matches.passed and not matches.nearly:
            return Heard(event, matches)
        own = self.own_words(connection, event, row)
        if own is not None or due.source != _GITHUB or not index.asks_access(due.project_id):
            return Heard(event, matches, own)
        asking = self.rights.asking(row, event)
        if asking is None or not turns_on_access(index, due.project_id, event, former):
            return Heard(event, matches)
        question = asking(connection)
        facts = self.rights.facts(question)
        if facts is None:
            return question
        known = amended(event, facts)
        return Heard(known, hear(index, due.project_id, known, former), facts=facts)

    @property
    def subject_runs(self) -> int:
        """How many events of one subject may start runs within an hour; 0 for any number."""
        return self._most

    def own_words(self, connection: sa.Connection, event: Event, row: ConnectionRow | None) -> str | None:
        """Why the event is own output; None where it is not."""
        return self._own.words(connection, event, by_token=self._by_token(event, row))

    def over_limit(self, connection: sa.Connection, project_id: str, event: Event, now: datetime) -> str | None:
        """Why the subject has had its share of runs; None where it has not. It stops what answers itself for ever,
        however many it goes by: the loops that one event starts count once."""
        if not self._most or event.subject is None or event.source not in _ANSWERING:
            return None
        before = events_that_ran(connection, project_id, event.subject, event.uuid, now - _HOUR)
        if before < self._most:
            return None
        return (
            f"{before} events of {event.subject} have started runs within the last hour, {self._most} at most: "
            "something may be answering itself; LOOPS_SUBJECT_HOURLY_RUNS is the limit"
        )

    def _by_token(self, event: Event, row: ConnectionRow | None) -> bool:
        if event.source != _GITHUB or row is None:
            return False
        client = self._clients.of(row)
        return client is not None and not client.is_app
