"""Moments as text, for both languages; names of days and months are English whatever the system's locale."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, tzinfo
from typing import TypeAlias
from zoneinfo import ZoneInfo

from loops.expressions.coercion import parse_moment
from loops.expressions.faults import fault
from loops.expressions.notation import HogValue, is_container
from loops.zones import zone_hint

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

_Directive: TypeAlias = Callable[[datetime], str]


def zone_named(name: HogValue) -> tzinfo:
    """The time zone of an IANA name such as Europe/Berlin; raises TemplateError for another."""
    text = "a list or map" if is_container(name) else str(name)
    try:
        return ZoneInfo(text)
    except (LookupError, ValueError, OSError):
        raise fault(f"there is no time zone {text[:80]!r}", zone_hint(text)) from None


def to_moment(value: HogValue, zone: tzinfo = UTC) -> datetime | None:
    """A moment out of a moment, a day, epoch seconds or ISO text, None for anything else."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=zone)
    if isinstance(value, str):
        return parse_moment(value, zone)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return datetime.fromtimestamp(value, zone)
    except (OverflowError, ValueError, OSError):
        return None


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """The same moment by another zone's clock."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        raise fault("the date is too early or too late for that time zone") from None


def format_hog(moment: datetime, pattern: str) -> str:
    """The moment by ClickHouse's directives, with the readings that Hog gives them (`%i` minutes, `%M` the month)."""

    def written(match: re.Match[str]) -> str:
        directive = _HOG.get(match[1])
        if directive is None:
            hint = "such as %Y-%m-%d %H:%i:%S; a percent sign is %%"
            raise fault(f"formatDateTime() does not know %{match[1]}", hint)
        return directive(moment)

    return re.sub(r"%(.?)", written, pattern, flags=re.DOTALL)


def format_strftime(moment: datetime, pattern: str) -> str:
    """The moment by strftime's directives with the flags `-`, `_`, `0`, `^`; what is unknown stays as it is."""

    def written(match: re.Match[str]) -> str:
        flag, letter = match[1], match[2]
        directive = _STRFTIME.get(letter)
        return match[0] if directive is None else _flagged(directive(moment), flag)

    return re.sub(r"%([-_0^]?)([A-Za-z%])", written, pattern)


def _flagged(text: str, flag: str) -> str:
    if flag == "^":
        return text.upper()
    if not flag or not text.strip().isdecimal():
        return text
    bare = text.lstrip(" 0") or "0"
    return bare if flag == "-" else bare.rjust(len(text), " " if flag == "_" else "0")


def _hour12(moment: datetime) -> int:
    return moment.hour % 12 or 12


def _offset(moment: datetime) -> str:
    text = moment.strftime("%z")
    return text[:5] if text else "+0000"


def _half(moment: datetime) -> str:
    return "AM" if moment.hour < 12 else "PM"


_SHARED: Mapping[str, _Directive] = {
    "a": lambda m: _DAYS[m.weekday()][:3],
    "b": lambda m: _MONTHS[m.month - 1][:3],
    "d": lambda m: f"{m.day:02}",
    "D": lambda m: f"{m.month:02}/{m.day:02}/{m.year % 100:02}",
    "F": lambda m: f"{m.year:04}-{m.month:02}-{m.day:02}",
    "g": lambda m: f"{m.isocalendar().year % 100:02}",
    "G": lambda m: f"{m.isocalendar().year:04}",
    "H": lambda m: f"{m.hour:02}",
    "I": lambda m: f"{_hour12(m):02}",
    "j": lambda m: f"{m.timetuple().tm_yday:03}",
    "m": lambda m: f"{m.month:02}",
    "n": lambda _: "\n",
    "p": _half,
    "R": lambda m: f"{m.hour:02}:{m.minute:02}",
    "S": lambda m: f"{m.second:02}",
    "t": lambda _: "\t",
    "T": lambda m: f"{m.hour:02}:{m.minute:02}:{m.second:02}",
    "u": lambda m: str(m.isoweekday()),
    "V": lambda m: f"{m.isocalendar().week:02}",
    "y": lambda m: f"{m.year % 100:02}",
    "Y": lambda m: f"{m.year:04}",
    "z": _offset,
    "%": lambda _: "%",
}
_HOG: Mapping[str, _Directive] = {
    **_SHARED,
    "c": _SHARED["m"],
    "C": _SHARED["y"],
    "e": lambda m: str(m.day),
    "f": lambda m: f"{m.microsecond // 1000:03}",
    "g": _SHARED["y"],
    "G": _SHARED["Y"],
    "h": _SHARED["I"],
    "i": lambda m: f"{m.minute:02}",
    "k": _SHARED["H"],
    "l": _SHARED["I"],
    "M": lambda m: _MONTHS[m.month - 1],
    "Q": lambda m: str((m.month + 2) // 3),
    "r": lambda m: f"{_hour12(m):02}:{m.minute:02} {_half(m)}",
    "s": _SHARED["S"],
    "w": _SHARED["u"],
    "W": lambda m: _DAYS[m.weekday()],
}
_STRFTIME: Mapping[str, _Directive] = {
    **_SHARED,
    "A": lambda m: _DAYS[m.weekday()],
    "B": lambda m: _MONTHS[m.month - 1],
    "c": lambda m: format_strftime(m, "%a %b %e %T %Y"),
    "C": lambda m: f"{m.year // 100:02}",
    "e": lambda m: f"{m.day:2}",
    "h": _SHARED["b"],
    "k": lambda m: f"{m.hour:2}",
    "l": lambda m: f"{_hour12(m):2}",
    "L": lambda m: f"{m.microsecond // 1000:03}",
    "M": lambda m: f"{m.minute:02}",
    "N": lambda m: f"{m.microsecond * 1000:09}",
    "P": lambda m: _half(m).lower(),
    "r": lambda m: format_strftime(m, "%I:%M:%S %p"),
    "s": lambda m: str(int(m.timestamp())),
    "U": lambda m: f"{(m.timetuple().tm_yday + 6 - m.isoweekday() % 7) // 7:02}",
    "w": lambda m: str(m.isoweekday() % 7),
    "W": lambda m: f"{(m.timetuple().tm_yday + 6 - m.weekday()) // 7:02}",
    "x": _SHARED["D"],
    "X": _SHARED["T"],
    "Z": lambda m: m.tzname() or "UTC",
}
