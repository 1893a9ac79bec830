"""What has to be known of an event before it is decided: who hears it, whether it is ours, what its sender may do."""

from collections.abc import Sequence
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
from triggers.matcher import Listener, Matches
from triggers.own_output import OwnOutput
from triggers.properties import amended
from triggers.rights import Facts, Question, Rights
from triggers.webhook.event import SOURCE as WEBHOOK

_GITHUB = "github"
# Where what a run writes comes back as an event.
_ANSWERING = frozenset({_GITHUB, "slack"})
_HOUR = timedelta(hours=1)
_BY_MACHINE = ("bot_sender", "bot_id", "app_id")
_NOBODY_TELLS = (
    "a bot wrote it, and its connection is gone: nobody can tell any more whether it is this installation's own output"
)


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

    def among(self, definitions: Definitions) -> "Audience":
        """The same of these loops alone, for another transaction than the one that dispatches."""
        return Audience(definitions, self.rights, self._own, self._clients, self._most)

    def of(self, connection: sa.Connection, due: Due, event: Event, row: ConnectionRow | None) -> Heard | Question:
        """Who hears the event, that of a webhook the one loop whose address it came to. A question where a loop's
        decision turns on an answer that is not known yet."""
        former = self._definitions.names.see(due.connection_id, event) if due.source == _GITHUB else ()
        return self.hearing(connection, due, event, row, former)

    def alone(self, row: ConnectionRow | None) -> Listener | None:
        """The one loop that a webhook's delivery is for."""
        return None if row is None else self._definitions.alone(str(row.config.get("workflow")))

    def hearing(
        self,
        connection: sa.Connection,
        due: Due,
        event: Event,
        row: ConnectionRow | None,
        former: Sequence[str],
        *,
        asked: bool = False,
    ) -> Heard | Question:
        """The same, where the names that its repository had before are known, and what was `asked` for may be in the
        event already."""
        if due.source == WEBHOOK:
            listener = self.alone(row)
            return Heard(event, Matches(event, () if listener is None else (listener,)))
        index = self._definitions.index
        matches = hear(index, due.project_id, event, former)
        if not matches.passed and not matches.nearly:
            return Heard(event, matches)
        own = self.own_words(connection, event, row)
        if own is not None or asked or due.source != _GITHUB or not index.asks_access(due.project_id):
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
        """Why the event is own output, or may be and nobody can tell; None where it is not."""
        if row is None and event.source in _ANSWERING and any(map(event.properties.get, _BY_MACHINE)):
            return _NOBODY_TELLS
        return self._own.words(connection, event, by_token=self._by_token(event, row))

    def limits(self, event: Event) -> bool:
        """Whether the runs of the event's subject are limited."""
        return bool(self._most) and event.subject is not None and event.source in _ANSWERING

    def over_limit(self, connection: sa.Connection, project_id: str, event: Event, now: datetime) -> str | None:
        """Why the subject has had its share of runs; None where it has not. It stops what answers itself for ever,
        however many it goes by: the loops that one event starts count once."""
        if not self.limits(event) or event.subject is None:
            return None
        before = events_that_ran(connection, project_id, event.subject, event.uuid, now - _HOUR)
        if before < self._most:
            return None
        return (
            f"{before} events of {event.subject} have started runs within the last hour, {self._most} at most: "
            "something may be answering itself; LOOPS_SUBJECT_HOURLY_RUNS is the limit"
        )

    def _by_token(self, event: Event, row: ConnectionRow | None) -> bool:
        if event.source != _GITHUB:
            return False
        if row is None:  # it is gone: as if it had been one
            return True
        client = self._clients.of(row)
        return client is not None and not client.is_app
