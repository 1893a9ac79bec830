"""The parts of a workflow that are neither trigger nor action."""

import json
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from loops.definition.findings import Findings, join, shown
from loops.definition.schema.base import Identifier, Name, NotStrict, Shape, refused, whole

MOST_VARIABLE_BYTES = 5120
MASK_SECONDS = (60, 94_608_000)
MOST_MASK_THRESHOLD = 1_000_000


def _not_blank(text: str) -> str:
    if not text.strip():
        raise refused("must not be blank")
    return text


NotBlank = Annotated[str, AfterValidator(_not_blank)]


class Edge(Shape):
    """A way from one action to another: the way on (`continue`), or the branch with this index."""

    not_here: ClassVar = {
        "from_port": "named ports are not supported yet",
        "to_port": "named ports are not supported yet",
    }

    source: Identifier = Field(alias="from")
    target: Identifier = Field(alias="to")
    type: Literal["continue", "branch"]
    index: Annotated[int, Field(ge=0)] | None = None

    def inspect(self, path: str, findings: Findings) -> None:
        if self.type == "branch" and self.index is None:
            findings.refuse(join(path, "index"), "is required on a branch edge", "the first branch has index 0")
        if self.type == "continue" and self.index is not None:
            findings.refuse(join(path, "index"), "has no meaning on a continue edge", "leave it out")


class Variable(Shape):
    """A variable of a run. Its value begins as `default`, always written as text, and is what steps make of it."""

    key: NotBlank
    type: Literal["string", "number", "boolean"]
    default: str = ""
    label: Name = ""

    def inspect(self, path: str, findings: Findings) -> None:
        place = join(path, "default")
        if self.type == "number" and self.default and not _reads_as_number(self.default):
            findings.refuse(place, f'"{shown(self.default)}" is no number', 'write one as text, such as "5", or ""')
        if self.type == "boolean" and self.default not in ("", "true", "false"):
            findings.refuse(place, f'"{shown(self.default)}" is no boolean', 'write "true", "false" or ""')


def _reads_as_number(text: str) -> bool:
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, int | float) and not isinstance(value, bool)


def inspect_variables(raw: Sequence[JsonValue], findings: Findings) -> None:
    """Report keys that stand twice, and a list that is over its limit."""
    seen: dict[str, int] = {}
    for index, variable in enumerate(raw):
        key = variable.get("key") if isinstance(variable, dict) else None
        if isinstance(key, str) and (first := seen.setdefault(key, index)) != index:
            findings.refuse(f"variables[{index}].key", f'"{shown(key)}" stands twice, first at variables[{first}]')
    size = sum(len(json.dumps(item)) for item in raw)
    if size > MOST_VARIABLE_BYTES:
        findings.refuse(
            "variables",
            f"take {size} bytes as JSON; {MOST_VARIABLE_BYTES} is the limit",
            "shorten the defaults, or keep long text in the prompt",
        )


class OutputMapping(Shape):
    """What of an action's result becomes a variable: the whole, or what lies at `result_path`; with `spread` an object
    becomes one variable a property, named `{key}_{property}`."""

    key: NotBlank
    result_path: str | None = None
    spread: bool = False
    label: str | None = None


def _mappings(given: object) -> object:
    """The list form of every form of `output_variable`: nothing, a key, an object, or a list of keys and objects."""
    if given is None:
        return []
    items = given if isinstance(given, list) else [given]
    return [{"key": item} if isinstance(item, str) else item for item in items]


OutputMappings = Annotated[tuple[OutputMapping, ...], NotStrict, BeforeValidator(_mappings)]


class Masking(Shape):
    """Holds back repeats: `hash` is a Hog template over event and person, `ttl` the window in seconds (no end without
    one), `threshold` N lets matches 1, N+1, 2N+1 … of a window pass."""

    hash: NotBlank
    ttl: Annotated[int, whole(*MASK_SECONDS)] | None = None
    threshold: Annotated[int, whole(0, MOST_MASK_THRESHOLD)] | None = None


class Input(Shape):
    """One input as the JSON has it. `order` decides which inputs are rendered first; later ones may read them."""

    value: JsonValue
    templating: Literal["hog", "liquid"] | None = None
    order: int | None = None
