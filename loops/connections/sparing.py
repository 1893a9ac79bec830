"""Sparing a service that counts questions: what it refused is remembered for a while, and no more is asked than so much
a minute, whoever asks."""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

REFUSED_SECONDS = 60.0
"""For how long a refusal may be told again where no more is asked."""
LOOKS = 40
"""How much is asked within a minute at most; Slack lets about fifty be looked at."""

_MINUTE = 60.0
_MOST_KEPT = 500

T = TypeVar("T")


@dataclass(slots=True)
class Sparing(Generic[T]):
    """Refusals by what was asked for, and the instants of the last questions, by a clock in seconds."""

    clock: Callable[[], float]
    _refused: "OrderedDict[str, tuple[float, T]]" = field(default_factory=OrderedDict)
    _asked: deque[float] = field(default_factory=deque)

    def refused(self, asked: str) -> T | None:
        """The refusal that is still good."""
        kept = self._refused.get(asked)
        return kept[1] if kept is not None and self.clock() < kept[0] else None

    def refuse(self, asked: str, refusal: T) -> None:
        """Keep a refusal; of too many the oldest go."""
        self.forget(asked)
        self._refused[asked] = (self.clock() + REFUSED_SECONDS, refusal)
        while len(self._refused) > _MOST_KEPT:
            self._refused.popitem(last=False)

    def forget(self, asked: str) -> None:
        """It is not refused any more."""
        self._refused.pop(asked, None)

    def take(self) -> bool:
        """Whether one more may be asked now, which counts then."""
        now = self.clock()
        while self._asked and self._asked[0] <= now - _MINUTE:
            self._asked.popleft()
        if len(self._asked) >= LOOKS:
            return False
        self._asked.append(now)
        return True
