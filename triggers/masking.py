"""Masking: of the matches whose hash renders the same, which ones start a run.

A window begins with a hash's first match and lasts for the mask's ttl; later matches do not extend it. Without a
threshold the first match of a window fires and the others are masked. A threshold N is a sampler: of a window the
matches 1, N+1, 2N+1 … fire; it does not wait for N of them. A hash that is null, false, 0 or empty, or that cannot be
rendered, masks nothing. A match that fired and started nothing after all is given back: the next one
fires in its place.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from loops.definition.schema.parts import MASK_SECONDS, Masking
from triggers.keys import EventJson, Key, KeyTemplate, Unkeyed, apart_words, digest_of, instant_words, shown_key

LONGEST_WINDOW = timedelta(seconds=MASK_SECONDS[1])


@dataclass(frozen=True, slots=True)
class Rule:
    """How long a window lasts, and of how many matches one fires; 0: only the first."""

    ttl: timedelta = LONGEST_WINDOW
    threshold: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """When a hash matched first, and how often it has matched since, that match included."""

    started_at: datetime
    count: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The window as it stands after a match, and whether that match fires."""

    window: Window
    fires: bool


def decide(rule: Rule, window: Window | None, now: datetime) -> Decision:
    """What becomes of a match at `now`; `window` is the hash's last one, None where there was none."""
    if window is None or now >= window.started_at + rule.ttl:
        return Decision(Window(now, 1), fires=True)
    counted = Window(window.started_at, window.count + 1)
    return Decision(counted, fires=rule.threshold > 0 and window.count % rule.threshold == 0)


def given_back(threshold: int, window: Window, number: int) -> Window | None:
    """The window of a rule with this threshold without its match of this number, which fired: those that it masked go
    with it, so that the next one fires in its place. None where no match is left.

    Where another one has fired since, that one did so in its turn, and the window stays as it is.
    """
    if window.count < number or (threshold and window.count >= number + threshold):
        return window
    return Window(window.started_at, number - 1) if number > 1 else None


def words(rule: Rule, decision: Decision) -> str:
    """What was decided, for people."""
    window = decision.window
    end = f"its window ends at {instant_words(window.started_at + rule.ttl)}"
    if rule.threshold:
        place = (window.count - 1) % rule.threshold + 1
        which = "match" if place == window.count else f"match {window.count} of the window,"
        return f"{which} {place} of {rule.threshold}; fires next at {window.count - place + rule.threshold + 1}; {end}"
    if decision.fires:
        return f"the same hash is masked from now on; {end}"
    return f"the same hash passed at {instant_words(window.started_at)}, {end}"


@dataclass(frozen=True, slots=True)
class Unmasked:
    """An event that is not masked, and why."""

    reason: str


@dataclass(slots=True)
class Mask:
    """A workflow's masking."""

    hash: str
    rule: Rule
    _template: KeyTemplate = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._template = KeyTemplate(self.hash, "trigger_masking.hash", "hash")

    def key(self, event: EventJson, now: datetime) -> Key | Unmasked:
        """The hash of an event, as templates see it, at `now`."""
        text = self._template.text(event, now)
        if isinstance(text, Unkeyed):
            return Unmasked(f"not masked: {text.reason}")
        return Key(self._digest(event, text), shown_key(text), apart_words(event))

    def _digest(self, event: EventJson, text: str) -> str:
        """With what gives the count its meaning, so that another hash, ttl or threshold begins anew."""
        return digest_of(event, self.hash, int(self.rule.ttl.total_seconds()), self.rule.threshold, text)


def mask_of(masking: Masking | None) -> Mask | None:
    """The mask that a workflow's `trigger_masking` describes; None for none. No ttl means the longest there is."""
    if masking is None:
        return None
    ttl = LONGEST_WINDOW if masking.ttl is None else timedelta(seconds=masking.ttl)
    return Mask(masking.hash, Rule(ttl, masking.threshold or 0))
