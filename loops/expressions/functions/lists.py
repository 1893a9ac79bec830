"""Functions of lists and maps. What they make holds JSON alone, so a moment in it becomes its ISO text."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from loops.expressions.coercion import contains, same, truthy
from loops.expressions.evaluation import MAX_OUTPUT, Evaluation, Run, check_length
from loops.expressions.functions.function import AnyFunction, Body, ItemFunction, is_list, lazy, plain, refuse
from loops.expressions.functions.numbers import to_int
from loops.expressions.notation import HogValue, as_json, hog_text

_Items: TypeAlias = Sequence[HogValue]

_VERSION = re.compile(r"(?<!\d)\d++(?:\.\d++)+", re.ASCII)
# What an item costs that is put into a list, and what comparing two costs.
_ITEM = 4
_COMPARING = 4


def _length(value: HogValue) -> HogValue:
    if isinstance(value, (str, Sequence, Mapping)):
        return len(value)
    return refuse("length", "a text, a list or a map", value)


def _listed(runs: Sequence[Run]) -> Run:
    return lambda evaluation: [as_json(run(evaluation)) for run in runs]


def _keys(value: HogValue) -> HogValue:
    if isinstance(value, Mapping):
        return list(value)
    return list(range(len(value))) if is_list(value) else []


def _values(value: HogValue) -> HogValue:
    return list(_items(value))


def _items(value: HogValue) -> _Items:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if is_list(value) else []


def _has(items: HogValue, item: HogValue) -> bool:
    return is_list(items) and contains(items, item)


def _index_of(items: HogValue, item: HogValue) -> HogValue:
    if not is_list(items) or not contains(items, item):
        return 0
    return next(place for place, member in enumerate(items, 1) if same(member, item))


def _push_back(items: HogValue, item: HogValue) -> HogValue:
    return [*(items if is_list(items) else []), as_json(item)]


def _push_front(items: HogValue, item: HogValue) -> HogValue:
    return [as_json(item), *(items if is_list(items) else [])]


def _pop_back(items: HogValue) -> HogValue:
    return list(items[:-1]) if is_list(items) else []


def _pop_front(items: HogValue) -> HogValue:
    return list(items[1:]) if is_list(items) else []


def _reversed(items: HogValue) -> HogValue:
    return list(reversed(items)) if is_list(items) else []


def _sorting(function: str, *, downward: bool) -> Callable[[Sequence[Run]], Run]:
    """Numbers by size, then texts by their characters, then false and true, then null."""

    def bind(runs: Sequence[Run]) -> Run:
        (argument,) = runs

        def run(evaluation: Evaluation) -> HogValue:
            items = argument(evaluation)
            if not is_list(items):
                return []
            read = sum(_COMPARING + (len(item) if isinstance(item, str) else 0) for item in items)
            evaluation.spend(len(items) + read * len(items).bit_length())
            return sorted(items, key=lambda item: _rank(function, item), reverse=downward)

        return run

    return bind


def _rank(function: str, item: HogValue) -> tuple[int, float | int | str]:
    if item is None:
        return 3, 0
    if isinstance(item, str):
        return 1, item
    if isinstance(item, (int, float)):
        return (2, item) if isinstance(item, bool) else (0, item) if item == item else (3, 0)
    return refuse(function, "a list of numbers and texts", [item])


def _joined(runs: Sequence[Run]) -> Run:
    def run(evaluation: Evaluation) -> HogValue:
        items, *rest = [argument(evaluation) for argument in runs]
        if not is_list(items):
            return ""
        separator = evaluation.text(rest[0]) if rest and rest[0] is not None else ""
        texts: list[str] = []
        length = 0
        for item in items:
            texts.append("" if item is None else evaluation.text(item))
            length += len(texts[-1]) + len(separator)
            check_length(length - len(separator))
        return evaluation.made(separator.join(texts))

    return run


def _over(collect: Callable[[Evaluation, Callable[[HogValue], HogValue], _Items], HogValue]) -> ItemFunction:
    """A function that calls another for each item of a list, or each value of a map."""

    def bind(body: Body, runs: Sequence[Run]) -> Run:
        (argument,) = runs

        def run(evaluation: Evaluation) -> HogValue:
            items = _items(argument(evaluation))
            evaluation.spend(1 + _ITEM * len(items))
            return collect(evaluation, lambda item: body(evaluation, [item]), items)

        return run

    return ItemFunction(2, 2, 1, bind)


def _reduce(body: Body, runs: Sequence[Run]) -> Run:
    of_items, of_first = runs

    def run(evaluation: Evaluation) -> HogValue:
        items, result = _items(of_items(evaluation)), of_first(evaluation)
        evaluation.spend(1 + _ITEM * len(items))
        for item in items:
            result = body(evaluation, [result, item])
        return result

    return run


def _sortable_semver(value: HogValue) -> HogValue:
    """The numbers of the first version in a text."""
    if value is None:
        return []
    found = _VERSION.search(hog_text(value, MAX_OUTPUT))
    return [] if found is None else [to_int(part) for part in found[0].split(".")]


FUNCTIONS: Mapping[str, AnyFunction] = {
    "arrayCount": _over(lambda _e, holds, items: sum(truthy(holds(item)) for item in items)),
    "arrayExists": _over(lambda _e, holds, items: any(truthy(holds(item)) for item in items)),
    "arrayFilter": _over(lambda _e, holds, items: [item for item in items if truthy(holds(item))]),
    "arrayMap": _over(lambda _e, made, items: [as_json(made(item)) for item in items]),
    "arrayPopBack": plain(_pop_back, 1),
    "arrayPopFront": plain(_pop_front, 1),
    "arrayPushBack": plain(_push_back, 2),
    "arrayPushFront": plain(_push_front, 2),
    "arrayReduce": ItemFunction(3, 3, 2, _reduce),
    "arrayReverse": plain(_reversed, 1),
    "arrayReverseSort": lazy(_sorting("arrayReverseSort", downward=True), 1, 1),
    "arraySort": lazy(_sorting("arraySort", downward=False), 1, 1),
    "arrayStringConcat": lazy(_joined, 1, 2),
    "has": plain(_has, 2),
    "indexOf": plain(_index_of, 2),
    "keys": plain(_keys, 1),
    "length": plain(_length, 1),
    "sortableSemver": plain(_sortable_semver, 1, texts=(0,)),
    "tuple": lazy(_listed, 0, None),
    "values": plain(_values, 1),
}
