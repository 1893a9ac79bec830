"""What every class of the schema has in common."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError

from loops.definition.findings import Findings, shown

REFUSED = "loops_refused"


class Shape(BaseModel):
    """A JSON object with a closed set of keys; nothing is coerced and nothing clamped.

    `not_here` names keys that other systems know and Loops does not take (yet), with the reason.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    not_here: ClassVar[Mapping[str, str]] = {}

    def inspect(self, path: str, findings: Findings) -> None:
        """Report what the types of the fields alone cannot tell. `path` is where the object stands."""


def refused(message: str, hint: str = "") -> PydanticCustomError:
    """The error by which a validator refuses a value in the words of `message` and `hint`."""
    return PydanticCustomError(REFUSED, "{message}", {"message": message, "hint": hint})  # type: ignore[misc]


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
