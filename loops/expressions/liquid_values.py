"""How a scope's values look to Liquid: lists and maps that print as JSON and wrap what they hand out.

Wrapping is lazy, one level at a time, because most of a payload is never read.
"""

import math
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import SupportsIndex, cast

from liquid import Undefined
from liquid.builtin.tags.for_tag import ForLoop
from liquid.builtin.tags.tablerow_tag import TableRow

from loops.expressions.evaluation import Evaluation
from loops.expressions.notation import HogValue, number_text

_OWN = (Undefined, ForLoop, TableRow)  # mappings that Liquid makes itself
_ENTRY = 4  # what an item costs, in characters


class JsonMap(dict[str, object]):
    """A map of the scope."""

    def __init__(self, raw: Mapping[str, object], evaluation: Evaluation) -> None:
        evaluation.spend(_ENTRY * 4 + len(raw))
        super().__init__(raw)
        self.raw = raw
        self._evaluation = evaluation

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dict) and len(other) == len(self):
            _count(self.raw, self._evaluation)
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # as any dict

    def __getitem__(self, key: str) -> object:
        return wrapped(super().__getitem__(key), self._evaluation)

    def items(self) -> ItemsView[str, object]:  # type: ignore[override]  # dict's own view class cannot be made
        return {key: self[key] for key in self}.items()

    def __str__(self) -> str:
        return printed(self, self._evaluation)


class JsonList(list[object]):
    """A list of the scope, or one that a filter made."""

    def __init__(self, raw: Sequence[object], evaluation: Evaluation) -> None:
        evaluation.spend(_ENTRY * (1 + len(raw)))
        super().__init__(raw)
        self.raw = raw
        self._evaluation = evaluation

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list) and len(other) == len(self):
            _count(self.raw, self._evaluation)
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # as any list

    def __contains__(self, item: object) -> bool:
        self._evaluation.spend(_ENTRY * (1 + len(self)))
        return super().__contains__(item)  # what is compared with lists or maps counts itself, each time

    def __getitem__(self, index: SupportsIndex | slice) -> object:  # type: ignore[override]  # as above
        return wrapped(super().__getitem__(index), self._evaluation)

    def __iter__(self) -> Iterator[object]:
        return (wrapped(item, self._evaluation) for item in super().__iter__())

    def __str__(self) -> str:
        return printed(self, self._evaluation)


def _count(value: object, evaluation: Evaluation) -> None:
    """Count all that a comparison may have to read, down to the innermost items."""
    pending = [value]
    while pending:
        item = pending.pop()
        evaluation.spend(_ENTRY + (len(item) if isinstance(item, str) else 0))
        if isinstance(item, Mapping):
            evaluation.spend(_ENTRY * len(item))
            pending.extend(item.values())
        elif isinstance(item, (list, tuple)):
            pending.extend(item)


def wrapped(value: object, evaluation: Evaluation, name: str = "") -> object:
    """The value as Liquid is to see it. Null becomes Undefined, which prints as nothing wherever it gets to."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return Undefined(name)
    if isinstance(value, (JsonMap, JsonList, str, *_OWN)):
        return value
    if isinstance(value, Mapping):
        return JsonMap(value, evaluation)
    if isinstance(value, (list, tuple)):
        return JsonList([unwrapped(item) for item in value], evaluation)
    return value


def unwrapped(value: object) -> HogValue:
    """The plain value again. What Liquid has besides JSON, such as Undefined or `forloop`, is null."""
    if isinstance(value, (JsonMap, JsonList)):
        return cast("HogValue", value.raw)
    if isinstance(value, range):
        return list(value)
    plain = isinstance(value, (str, int, float, Mapping, list, tuple)) and not isinstance(value, _OWN)
    return cast("HogValue", value) if plain else None


def printed(value: object, evaluation: Evaluation) -> str:
    """The value as JSON, if that is not too long."""
    return evaluation.json(unwrapped(value))


def spelled(value: object) -> object:
    """What a filter for texts should get in place of a value that Python would spell its own way."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if isinstance(value, float) else value
