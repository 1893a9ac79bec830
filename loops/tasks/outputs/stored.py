"""The proposals of a task, in the database."""

from collections.abc import Callable, Mapping

from loops.agent.proposals import ProposalKind, Proposed, TooMany
from loops.event import JsonValue
from loops.ports import Clock, Writer
from loops.store import outputs as store
from loops.store.patience import persist
from loops.tasks.equipment import Job
from loops.tasks.journal import masked


class StoredProposals:
    """Takes down what one task asks for, with secrets blotted out."""

    def __init__(
        self,
        writer: Writer,
        clock: Clock,
        job: Job,
        repository: str,
        subject: int | None,
        most: Mapping[ProposalKind, int],
        mask: Callable[[str], str],
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._job = job
        self._repository = repository
        self._subject = subject
        self._most = most
        self._mask = mask

    @property
    def repository(self) -> str:
        """See Proposals."""
        return self._repository

    @property
    def subject(self) -> int | None:
        """See Proposals."""
        return self._subject

    @property
    def most(self) -> Mapping[ProposalKind, int]:
        """See Proposals."""
        return self._most

    async def add(self, kind: ProposalKind, body: Mapping[str, JsonValue], key: str) -> Proposed | TooMany:
        """See Proposals."""
        now, said = self._clock.now(), masked(body, self._mask)
        if kind in {"comment", "labels"}:
            said = {**said, "subject": self.subject}
        task, most = (self._job.task.id, self._job.owner), self._most.get(kind, 0)
        number = await persist(
            self._writer,
            lambda connection: store.add(
                connection, *task, key, kind, self._repository, said, most, now, self._job.task.turn
            ),
        )
        return TooMany(most) if number is None else Proposed(number)


def subject_number(event: Mapping[str, JsonValue] | None, repository: str) -> int | None:
    """The issue or pull request of this repository that an event is about."""
    properties = (event or {}).get("properties")
    if not isinstance(properties, dict) or (event or {}).get("source") != "github":
        return None
    number, place, kind = properties.get("number"), properties.get("repository"), properties.get("event_type")
    is_here = isinstance(place, str) and place.lower() == repository.lower()
    # Discussions are numbered with the issues, but are none.
    is_issue = isinstance(kind, str) and not kind.startswith("discussion")
    return number if is_here and is_issue and isinstance(number, int) and not isinstance(number, bool) else None
