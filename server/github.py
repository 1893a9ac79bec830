"""The parts that speak with GitHub, put together for a process."""

from collections.abc import Callable, Iterable

from loops.connections.github import GitHubClients
from loops.connections.github_reach import RepositoryReach
from loops.connections.github_repositories import GitHubRepositories
from loops.connections.secrets import SecretBox
from loops.own_output import PURPOSE, Marks
from loops.ports import Clock, Reader, Writer
from server.metrics import Metrics
from triggers.audience import Audience
from triggers.definitions import Definitions
from triggers.own_output import OwnOutput
from triggers.redelivery import Redelivery
from triggers.rights import Rights


class GitHubParts:
    """One set of clients, and what uses them."""

    def __init__(self, box: SecretBox, opened: Callable[[Iterable[str]], None], clock: Clock, metrics: Metrics) -> None:
        """`opened` is told the secrets of every connection that is opened, so that no log shows them."""
        self._box = box
        self._clock = clock
        self._metrics = metrics
        self._clients = GitHubClients(box, opened)
        self._rights: Rights | None = None
        self.marks = Marks(box.derive_all(PURPOSE))

    def audience(
        self, definitions: Definitions, writer: Writer, answered: Callable[[], None], subject_hourly_runs: int
    ) -> Audience:
        """What a dispatcher asks of each event; `answered` is called when something that it asked is known."""
        counter = self._metrics.github_lookups
        self._rights = Rights(
            self._clients,
            writer,
            self._clock,
            answered=answered,
            observe=lambda outcome: counter.labels(outcome).inc(),
        )
        return Audience(definitions, self._rights, OwnOutput(self.marks), self._clients, subject_hourly_runs)

    def redelivery(self, reader: Reader, public_url: Callable[[], str]) -> Redelivery:
        """What asks for deliveries that failed."""
        counter = self._metrics.redeliveries
        return Redelivery(
            self._clients, reader, self._clock, public_url, lambda outcome, count: counter.labels(outcome).inc(count)
        )

    def repositories(self, reader: Reader) -> GitHubRepositories:
        """What lists the repositories of connections."""
        return GitHubRepositories(reader, self._clients)

    def reach(self, reader: Reader) -> RepositoryReach:
        """What finds the connection that reaches a repository."""
        return RepositoryReach(reader, self._clients)

    async def aclose(self) -> None:
        """Stop asking, and close."""
        if self._rights is not None:
            await self._rights.aclose()
        self._clients.close()
