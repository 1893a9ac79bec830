"""What mends the name of a time zone that is none."""

from collections.abc import Mapping
from functools import cache
from zoneinfo import available_timezones

from config.closest import closest

NO_ZONES = frozenset({"localtime", "posixrules", "Factory"})
"""Files beside the zones: what this machine is set to, which differs from machine to machine."""

_EXAMPLE = "use an IANA name such as Europe/Berlin"


@cache
def _by_place() -> Mapping[str, str]:
    """The zones by the last part of their names. Looks through a folder: once, and only where a name is wrong."""
    return {name.rpartition("/")[2]: name for name in sorted(available_timezones() - NO_ZONES, reverse=True)}


def zone_hint(name: str) -> str:
    """The zone that may have been meant, by its whole name or its place alone, else what such names look like."""
    by_place = _by_place()
    near = closest(name, by_place.values()) if "/" in name else by_place.get(closest(name, by_place) or "")
    return f"did you mean {near}?" if near else _EXAMPLE
