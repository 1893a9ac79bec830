"""What every class of the schema has in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError

from loops.definition.findings import Findings, nearest, shown

REFUSED = "loops_refused"


@dataclass(frozen=True, slots=True)
class Kinds:
    """The values of `type` in a union that are no class of it: those that are to come, those that never will with what
    to use instead, and words that people write with what they meant. All names begin with `prefix`."""

    what: str
    later: frozenset[str] = frozenset()
    never: Mapping[str, str] = field(default_factory=dict)
    meant: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""

    def words(self, name: str, known: Sequence[str]) -> tuple[str, str]:
        """What to say of a `type` that is none of `known`."""
        supported = f"supported: {', '.join(known)}"
        if name in self.later:
            return f'the {self.what} "{name}" is not supported yet', supported
        if name in self.never:
            return f'the {self.what} "{name}" is not supported', self.never[name] or supported
        near = nearest(name, [*known, *self.later, *self.never], self.prefix)
        hint = self.meant.get(name) or near or supported
        return f'unknown {self.what} "{shown(name)}"', hint


class Shape(BaseModel):
    """A JSON object with a closed set of keys; nothing is coerced and nothing clamped.

    `not_here` names keys that other systems know and Loops does not take (yet), with the reason; `kinds` does so for
    the values of `type`, on the classes of a union. `tag` is the key that a union is told apart by.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    not_here: ClassVar[Mapping[str, str]] = {}
    kinds: ClassVar[Kinds | None] = None
    tag: ClassVar[str] = "type"

    def inspect(self, path: str, findings: Findings) -> None:
        """Report what the types of the fields alone cannot tell. `path` is where the object stands."""


def refused(message: str, hint: str = "") -> PydanticCustomError:
    """The error by which a validator refuses a value in the words of `message` and `hint`."""
    return PydanticCustomError(REFUSED, "{message}", {"message": message, "hint": hint})


def whole(lowest: int, highest: int) -> AfterValidator:
    """Refuses numbers outside a range, both ends allowed, and says which range that is."""

    def check(number: int) -> int:
        if not lowest <= number <= highest:
            raise refused(f"{shown(number)} is out of range", f"allowed: {lowest} to {highest}")
        return number

    return AfterValidator(check)


# A JSON list becomes a tuple; the laxness is the container's alone, its items stay strict.
NotStrict = Strict(strict=False)

Name = Annotated[str, Field(max_length=400)]
Identifier = Annotated[str, Field(min_length=1, max_length=200)]
