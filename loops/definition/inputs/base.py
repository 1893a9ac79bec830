"""How a function template says which inputs it takes.

A template is a class with one field an input. The field's type checks the value as it stands in the JSON; `Templated`
in its annotation says that strings in it are templates, and in which language.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BeforeValidator, JsonValue
from pydantic.fields import FieldInfo

from loops.definition.findings import Findings, join
from loops.definition.schema.base import NotStrict, Shape, refused
from loops.definition.schema.parts import NotBlank

Language = Literal["hog", "liquid"]

# The names that templates of an action may begin with.
STEP_ROOTS = frozenset({"event", "person", "groups", "variables", "project", "source", "inputs", "steps", "payload"})
REQUEST_ROOTS = frozenset({"request"})
MASK_ROOTS = frozenset({"event", "person"})
LARGEST_ID = 2**63 - 1
_MOST_DIGITS = 40


@dataclass(frozen=True, slots=True)
class Templated:
    """Strings of this input are templates. `language` is the one they have unless the input names another. What a
    `guarded` input says is an instruction, so that it takes variables alone. Of an object's parts, those in `html` are
    escaped when rendered, and those in `literal` are left as they are."""

    language: Language = "hog"
    guarded: bool = False
    html: frozenset[str] = frozenset()
    literal: frozenset[str] = frozenset()


class Inputs(Shape):
    """The inputs of a function template, which actions of type `action_type` may name; `roots` are the names that
    its templates may begin with."""

    action_type: ClassVar[str] = "function"
    roots: ClassVar[frozenset[str]] = STEP_ROOTS

    @classmethod
    def lacking(cls, values: Mapping[str, JsonValue], path: str, findings: Findings) -> None:
        """Report what the template cannot run without. `values` are the inputs that say something."""
        for name, field in cls.model_fields.items():
            if field.is_required() and name not in values:
                findings.refuse(join(path, name), "is required")


def templated(field: FieldInfo) -> Templated | None:
    """What a field's annotation, or that of one of its alternatives, says about templates; None for a literal."""
    said = list(field.metadata)
    for option in get_args(field.annotation):
        said.extend(getattr(option, "__metadata__", ()))
    return next((item for item in said if isinstance(item, Templated)), None)


def connection_number(given: object) -> int | None:
    """The number of a connection, given as 7 or "7"; None where none is named. It may be larger than that of any."""
    if isinstance(given, str) and given.isascii() and given.isdigit():
        given = int(given[:_MOST_DIGITS])  # Python reads no number of thousands of digits
    return given if isinstance(given, int) and not isinstance(given, bool) and given > 0 else None


def _identity(given: object) -> int:
    number = connection_number(given)
    if number is None or number > LARGEST_ID:
        raise refused("must be the id of a connection", 'a whole number, as 7 or as "7"')
    return number


def _reference(given: object) -> object:
    """An id of ours as text, whether given as 7 or "7"."""
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


ConnectionId = Annotated[int, BeforeValidator(_identity)]
Text = NotBlank
Reference = Annotated[Text, BeforeValidator(_reference)]
HogText = Annotated[Text, Templated()]
HogJson = Annotated[JsonValue, Templated()]
References = Annotated[tuple[Reference, ...], NotStrict]
Names = Annotated[tuple[Text, ...], NotStrict]
