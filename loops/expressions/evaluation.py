"""One rendering: the values it reads, its clock, and how much work it may still do."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias, cast

from loops.expressions.faults import fault
from loops.expressions.notation import HogValue, hog_text, is_container, json_text

MAX_OUTPUT = 1_000_000
"""Characters that one text may have."""
MAX_DEPTH = 500
"""How deep a value may nest that a template makes."""
CLOCK = "__now__"
"""The key of a scope under which the caller may give the present moment."""

# Characters and items that one rendering may read and write. The only loops are those over items, and each turn of one
# costs some of it, so this alone bounds the time.
_WORK = 10_000_000
# What a character of a list's or map's text costs to write, above what reading it costs.
_WRITING = 4
# What a value costs to hand on, however small it is.
_HELD = 8


class Evaluation:
    """What compiled expressions are called with."""

    __slots__ = ("_left", "_texts", "locals", "scope")

    def __init__(self, scope: Mapping[str, object]) -> None:
        self.scope = scope
        # What the parameters of the functions that are being called stand for, the innermost last.
        self.locals: list[HogValue] = []
        self._left = _WORK
        # By notation and identity; the value is kept, so that its identity stays its own.
        self._texts: dict[tuple[_Notation, int], tuple[HogValue, str]] = {}

    def spend(self, work: int) -> None:
        """Count characters or items; raises TemplateError once the rendering has had its share."""
        self._left -= work
        if self._left < 0:
            raise fault("the template does too much work", "render less, or a smaller value")

    def made(self, text: str) -> str:
        """The text, if it is not too long."""
        check_length(len(text))
        self.spend(len(text))
        return text

    def text(self, value: HogValue) -> str:
        """The value as Hog prints it."""
        return self._written(hog_text, value)

    def json(self, value: HogValue) -> str:
        """The value as compact JSON."""
        return self._written(json_text, value)

    def flat(self, value: HogValue) -> HogValue:
        """A list or map as Hog prints it; any other value as it is."""
        return self.text(value) if is_container(value) else value

    def weigh(self, value: HogValue) -> None:
        """Count all that a value holds, as often as it holds it: who takes it over may copy it. Raises TemplateError
        where it is too much or nested too deeply to be handed on."""
        pending = [(value, 1)] if is_container(value) else []
        while pending:
            holder, depth = pending.pop()
            if depth > MAX_DEPTH:
                raise fault(f"the value is nested more than {MAX_DEPTH} deep")
            inner = cast("Collection[HogValue]", holder.values() if isinstance(holder, Mapping) else holder)
            self.spend(_HELD * (1 + len(inner)))
            for item in inner:
                if isinstance(item, str):
                    self.spend(len(item))
                elif is_container(item):
                    pending.append((item, depth + 1))

    def _written(self, notation: "_Notation", value: HogValue) -> str:
        if not is_container(value):
            return self.made(notation(value, MAX_OUTPUT))
        key = notation, id(value)
        if key not in self._texts:
            text = notation(value, MAX_OUTPUT)
            self.spend(_WRITING * len(text))
            self._texts[key] = value, text
        return self.made(self._texts[key][1])

    def now(self) -> datetime:
        """The scope's clock, else the system's."""
        return clock(self.scope)


_Notation: TypeAlias = Callable[[HogValue, int], str]
Run: TypeAlias = Callable[[Evaluation], HogValue]


def clock(scope: Mapping[str, object]) -> datetime:
    """The moment under `__now__`, else the present one; always aware."""
    given = scope.get(CLOCK)
    if not isinstance(given, datetime):
        return datetime.now(UTC)
    return given.replace(tzinfo=UTC) if given.tzinfo is None else given


def size(value: object) -> int:
    """What reading the value costs, but not what is inside its items: writing those as text is counted there."""
    return len(value) if isinstance(value, (str, Sequence, Mapping)) else 1


def check_length(length: int) -> None:
    """Raise TemplateError for a text of so many characters, if that is too long."""
    if length > MAX_OUTPUT:
        raise fault(f"the template makes a text of more than {MAX_OUTPUT:,} characters")


def joined(parts: Sequence[str | Run]) -> Run:
    """The parts as one text: null is nothing, what is no text is printed as Hog does."""

    def run(evaluation: Evaluation) -> str:
        texts: list[str] = []
        length = 0
        for part in parts:
            value = part if isinstance(part, str) else part(evaluation)
            if value is not None:
                text = value if isinstance(value, str) else evaluation.text(value)
                length += len(text)
                texts.append(text)
        check_length(length)
        evaluation.spend(length)
        return "".join(texts)

    return run
