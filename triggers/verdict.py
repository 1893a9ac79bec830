"""What was decided about one workflow and one event, in values that can be stored and shown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loops.event import JsonValue
from loops.filters import Comparison


@dataclass(frozen=True, slots=True)
class Verdict:
    """The stage that decided, and why.

    `stage` is where it ended: "project", "trigger" (what it listens to), "filters", a brake by its name, or "start"
    for what passed them all. `reason` is for people; `compared` holds what was compared at that stage. `hold` is what
    debounce holds the event by.
    """

    workflow: str
    version: int
    stage: str
    passed: bool
    reason: str
    compared: tuple[Comparison, ...] = ()
    hold: str = ""

    def noted(self) -> "Verdict":
        """With what has to be known of the values that let it pass; a filter that failed tells of its own."""
        notes = dict.fromkeys(one.note for one in self.compared if one.note)
        return replace(self, reason="; ".join((self.reason, *notes))) if self.passed and notes else self

    def as_json(self) -> dict[str, JsonValue]:
        held: dict[str, JsonValue] = {"hold": self.hold} if self.hold else {}
        return {
            "workflow": self.workflow,
            "version": self.version,
            "stage": self.stage,
            "passed": self.passed,
            "reason": self.reason,
            "compared": [comparison.as_json() for comparison in self.compared],
            **held,
        }


def let_go_words(verdict: Verdict) -> str:
    """What is said of a delivery whose event debounce let go."""
    if verdict.passed:
        return "started once debounce let it go"
    by = "an error" if verdict.stage == "error" else verdict.stage
    return f"stopped by {by} once debounce let it go"


def unverified_reason(writes: Sequence[str]) -> str:
    """Why an event that anybody may have sent does not start a loop that may change something."""
    return (
        "nobody proved to have sent the event (it came unsigned, or with a public key), and the loop may write: "
        f"{'; '.join(writes)}; allow_unverified in its trigger lets such events start it"
    )
