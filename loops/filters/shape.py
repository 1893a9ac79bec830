"""The JSON of filters read piece by piece: what has the wrong shape is a fault with its place."""

from collections.abc import Collection, Mapping

from config.closest import closest
from loops.errors import Fault
from loops.event import JsonValue


def objects(entries: JsonValue, path: str, faults: list[Fault]) -> list[tuple[str, Mapping[str, JsonValue]]]:
    """The objects of a list, each with its place; a list that is null is empty."""
    if entries is None:
        return []
    if not isinstance(entries, list):
        faults.append(Fault(path, f"must be a list, got {kind_of(entries)}"))
        return []
    found: list[tuple[str, Mapping[str, JsonValue]]] = []
    for number, entry in enumerate(entries):
        if isinstance(entry, Mapping):
            found.append((f"{path}[{number}]", entry))
        else:
            faults.append(Fault(f"{path}[{number}]", f"must be an object, got {kind_of(entry)}"))
    return found


def check_keys(entry: Mapping[str, JsonValue], known: Collection[str], place: str, faults: list[Fault]) -> None:
    """Refuse keys that an object may not have, with the nearest that it may."""
    for key in entry:
        if key not in known:
            near = closest(str(key), known)
            hint = f"did you mean {near}?" if near else f"known here: {', '.join(known)}"
            faults.append(Fault(f"{place}.{key}", "is not a known key", hint))


def kind_of(value: object) -> str:
    """What a value is, for people."""
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")
