"""The journal of a task's rounds, in the database."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loops.agent.transcript import Round, Transcript
from loops.ports import Clock, Writer
from loops.store import tasks as store
from loops.store import threads
from loops.store.patience import persist

if TYPE_CHECKING:
    import sqlalchemy as sa


class StoredJournal:
    """Keeps rounds for one owner of a task; each call raises RunFenced once another has taken it over."""

    def __init__(
        self,
        writer: Writer,
        clock: Clock,
        task_id: str,
        owner: str,
        mask: Callable[[str], str],
        kept: Sequence[Round] = (),
        turn: int = 1,
    ) -> None:
        """`kept` are the rounds that are there, `turn` is the one that is worked on."""
        self._turn = turn
        self._kept = {one.number: one for one in kept}
        self._writer = writer
        self._clock = clock
        self._task_id = task_id
        self._owner = owner
        self._mask = mask

    async def replied(self, one: Round) -> None:
        """See Journal."""
        await self._keep(one)

    async def finished(self, one: Round) -> None:
        """See Journal."""
        await self._keep(one)

    async def _keep(self, one: Round) -> None:
        self._kept[one.number] = one
        now, body, spent = self._clock.now(), masked(one.as_json(), self._mask), self._spent()
        run = (self._task_id, self._owner, one.number)

        def keep(connection: "sa.Connection") -> None:
            store.keep_round(connection, *run, body, spent, now)
            threads.mark_told(connection, self._task_id, one.heard, one.number)

        await persist(self._writer, keep)

    @property
    def transcript(self) -> Transcript:
        """The rounds that are kept, in their order."""
        return Transcript("", "", tuple(self._kept[number] for number in sorted(self._kept)), self._turn)

    def _spent(self) -> store.Spending:
        usage, cost = self.transcript.usage, self.transcript.cost
        return store.Spending(usage.input, usage.output, None if cost is None else float(cost))


def masked(value: Mapping[str, Any], mask: Callable[[str], str]) -> dict[str, Any]:
    """The value with `mask` over every text in it."""
    return {key: _masked(item, mask) for key, item in value.items()}


def _masked(value: Any, mask: Callable[[str], str]) -> Any:  # noqa: ANN401
    match value:
        case str():
            return mask(value)
        case list():
            return [_masked(item, mask) for item in value]
        case dict():
            return masked(value, mask)
    return value
