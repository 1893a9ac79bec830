"""The brakes of a trigger beside `trigger_masking`: what is dropped, put off, or must wait for another run.

Spans are seconds, as a mask's `ttl`. A `key` is a Hog template over event and person, as a mask's `hash`: a brake
counts each value of it by itself, and without one all events of the workflow together.
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from loops.definition.findings import Findings, join
from loops.definition.schema.base import Kinds, Shape, whole
from loops.definition.schema.parts import NotBlank

MOST_COUNT = 1000
PERIOD_SECONDS = (1, 2_592_000)
QUIET_SECONDS = (1, 86_400)
LONGEST_SECONDS = (1, 604_800)
MOST_AT_ONCE = 1000


class RateLimit(Shape):
    """Lets `count` events pass within any `period` seconds, and drops the others."""

    count: Annotated[int, whole(1, MOST_COUNT)]
    period: Annotated[int, whole(*PERIOD_SECONDS)]
    key: NotBlank | None = None


class Debounce(Shape):
    """Holds events until none has come for `quiet` seconds, `longest` seconds after the first at the latest; the last
    one goes on in place of all."""

    quiet: Annotated[int, whole(*QUIET_SECONDS)]
    longest: Annotated[int, whole(*LONGEST_SECONDS)]
    key: NotBlank | None = None

    def inspect(self, path: str, findings: Findings) -> None:
        if self.longest < self.quiet:
            findings.refuse(
                join(path, "longest"),
                f"{self.longest} is shorter than quiet, {self.quiet}: nothing would ever be waited for",
                "make it as long as quiet, or longer",
            )


class Overlapping(Shape):
    """What becomes of an event while a run that an earlier one started is under way."""

    tag: ClassVar = "policy"
    kinds: ClassVar = Kinds(
        "policy",
        meant={
            "drop": "use skip",
            "single": "use skip",
            "cancel": "use restart",
            "replace": "use restart",
            "queued": "use queue, with a maximum",
            "wait": "use queue, with a maximum",
            "allow": "leave trigger_overlap out: without it runs go on side by side",
        },
    )

    policy: str
    key: NotBlank | None = None


_NO_MAXIMUM = {"maximum": "only queue and parallel have a maximum"}


class SkipOverlap(Overlapping):
    """It starts nothing."""

    not_here: ClassVar = _NO_MAXIMUM

    policy: Literal["skip"]


class QueueOverlap(Overlapping):
    """Its run waits until those before it are over; at most `maximum` wait, and what comes then starts nothing."""

    policy: Literal["queue"]
    maximum: Annotated[int, whole(1, MOST_AT_ONCE)]


class RestartOverlap(Overlapping):
    """The run under way is cancelled, and its run begins once that has stopped."""

    not_here: ClassVar = _NO_MAXIMUM

    policy: Literal["restart"]


class ParallelOverlap(Overlapping):
    """At most `maximum` runs go on side by side; what comes while there are as many starts nothing."""

    policy: Literal["parallel"]
    maximum: Annotated[int, whole(1, MOST_AT_ONCE)]


Overlap: TypeAlias = Annotated[
    SkipOverlap | QueueOverlap | RestartOverlap | ParallelOverlap, Field(discriminator="policy")
]
