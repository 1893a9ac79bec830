"""On what terms an event is decided: as it came, or played again.

A replay passes the stages that a delivery passes. What is lifted for it stands here and nowhere else: a stage that is
not named holds, a new one too. docs/guides/why-did-it-not-fire.md has the same in a table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "enabled": "whether it was enabled when the delivery came",
        "thread": "the thread of a live task",
        "subject_limit": "the limit of its subject",
        "claim": "claim",
        "mask": "mask",
        "rate_limit": "rate limit",
        "debounce": "debounce",
    }
)
"""The stages that may be lifted, in words."""


@dataclass(frozen=True, slots=True)
class Terms:
    """`replay` is the number of the replay, 0 for an event as it came. A stage that is `lifted` neither stops the event
    nor counts it."""

    replay: int = 0
    lifted: frozenset[str] = frozenset()

    def numbered(self, number: int) -> "Terms":
        """The same for the replay of this number."""
        return replace(self, replay=number)


LIVE = Terms()
"""As it came: all holds."""

ONE = Terms(lifted=frozenset(WORDS))
"""One delivery, which a person has looked at and wants to have played again. Filters, own output, who may start what,
overlap and the quotas of tasks hold."""

PERIOD = Terms(lifted=frozenset({"enabled"}))
"""All that a loop missed of a period, which nobody has looked at: what the loop would have held back was not missed."""
