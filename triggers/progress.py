"""How far a delivery of many events is decided: in parts, a transaction each, so that nobody waits for the whole of it.
Stored with each part is where the next begins, and what became of the events before."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loops.store.deliveries import Settled
from triggers.slack.handing import is_handed
from triggers.verdict import Verdict

_HELD = "debounced"
_NEAR = "came near"
# What is said of a delivery whose events were stopped, by stage; of all others that they came near.
_STOPPED = {"mask": "masked", "rate_limit": "over a rate limit", "debounce": _HELD, "overlap": "stopped by overlap"}


@dataclass(slots=True)
class Progress:
    """`events` is how many are decided, counted from the front, and `new` how many of these had not come before. `here`
    are the runs that were started since it was stored. `handed` says to whom an event was handed, `came_before` where
    one had come before."""

    events: int = 0
    new: int = 0
    started: int = 0
    here: int = 0
    handed: str = ""
    came_before: str = ""
    stopped: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> "Progress":
        """As it was stored; the beginning where nothing was."""
        return cls() if stored is None else cls(**{**stored, "stopped": Counter(stored["stopped"])})

    def as_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "events": self.events,
            "new": self.new,
            "started": self.started,
            "handed": self.handed,
            "came_before": self.came_before,
            "stopped": dict(self.stopped),
        }

    def decided(self, verdicts: Sequence[Verdict]) -> None:
        """One more event was decided, and with what verdicts."""
        self.events += 1
        self.new += 1
        for verdict in verdicts:
            if verdict.passed:
                self.started += 1
                self.here += 1
            else:
                self.stopped[_STOPPED.get(verdict.stage, _NEAR)] += 1
            if is_handed(verdict):
                self.handed = self.handed or verdict.reason

    def repeated(self, reason: str) -> None:
        """One more event had come before."""
        self.events += 1
        self.came_before = self.came_before or reason

    def settled(self, delivery_id: str) -> Settled:
        """What became of the delivery, all of whose events are decided."""
        if self.started or self.handed:
            return Settled(delivery_id, "dispatched", "" if self.started else self.handed, self.here)
        if not self.new:
            return Settled(delivery_id, "ignored", self.came_before or "it holds no event", 0)
        told = ", ".join(f"{self.stopped[what]} {what}" for what in (*_STOPPED.values(), _NEAR) if self.stopped[what])
        if self.stopped[_HELD]:
            return Settled(delivery_id, "dispatched", told, 0)
        return Settled(delivery_id, "ignored", f"no loop started; {told}" if told else "no loop listens for it", 0)
