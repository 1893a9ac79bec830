"""Liquid's filters: the library's behind a guard that counts their work, and ours for JSON, dates and lists."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from liquid import Environment, RenderContext
from liquid.exceptions import FilterArgumentError
from liquid.filter import with_context

from loops.expressions.evaluation import Evaluation, check_length
from loops.expressions.faults import fault
from loops.expressions.liquid_values import printed, spelled, unwrapped, wrapped
from loops.expressions.moments import format_strftime, in_zone, to_moment, zone_named
from loops.expressions.notation import HogValue

_Filter: TypeAlias = Callable[..., object]

# Filters that take the left value and their arguments as texts.
_ON_TEXT = frozenset(
    {
        *("append", "prepend", "replace", "replace_first", "replace_last", "remove", "remove_first", "remove_last"),
        *("capitalize", "downcase", "upcase", "squish", "strip", "lstrip", "rstrip", "strip_html", "strip_newlines"),
        *("escape", "escape_once", "escapejs", "newline_to_br", "url_decode", "url_encode", "base64_decode"),
        *("base64_encode", "base64_url_safe_decode", "base64_url_safe_encode", "slice", "split", "truncate"),
        "truncatewords",
    }
)
_LARGEST_INT_BITS = 4096
_SPOKEN_DATES = ("%B %d, %Y", "%B %d, %Y at %I:%M %p", "%b %d, %Y", "%d %B %Y", "%m/%d/%Y", "%Y/%m/%d")


def install(environment: Environment) -> None:
    """Put our filters beside the library's, and take away `safe`, which would switch escaping off."""
    del environment.filters["safe"]
    environment.add_filter("json", _json)
    environment.add_filter("date", _date)
    environment.add_filter("join", _join)


def guarded(name: str, call: _Filter, evaluation: Evaluation) -> _Filter:
    """The filter, counting what it reads and makes, and refusing what would grow without bound."""

    def run(left: object, *arguments: object, **options: object) -> object:
        if name in _ON_TEXT:
            left, arguments = spelled(left), tuple(map(spelled, arguments))
        evaluation.spend(1 + extent(left) + sum(map(extent, arguments)))
        _check_growth(name, left, arguments, evaluation)
        result = call(left, *arguments, **options)
        evaluation.spend(extent(result))
        if isinstance(result, str):
            check_length(len(result))
        if isinstance(result, int) and result.bit_length() > _LARGEST_INT_BITS:
            raise fault(f"the number that `{name}` makes is too large")
        return wrapped(result, evaluation)

    return run


def extent(value: object) -> int:
    """What reading a value costs, without what is inside its items."""
    if isinstance(value, range):
        return max(0, value.stop - value.start)  # len() fails for a vast range
    if isinstance(value, (list, dict)):
        return 4 * len(value)  # an item costs more than a character
    return len(value) if isinstance(value, str) else 1


def _check_growth(name: str, left: object, arguments: Sequence[object], evaluation: Evaluation) -> None:
    if name == "replace" and len(arguments) > 1:
        old, new = str(arguments[0]), str(arguments[1])
        text = str(left)
        check_length(len(text) + text.count(old) * (len(new) - len(old)))
    if name in ("sort", "sort_natural"):
        evaluation.spend(8 * extent(left))  # each item is compared several times
    if name == "uniq":
        evaluation.spend(extent(left) ** 2 // 10)  # each item is compared with each before it


def _evaluation(context: RenderContext) -> Evaluation:
    evaluation: Evaluation = context.evaluation  # type: ignore[attr-defined]  # of our context class
    return evaluation


@with_context
def _json(value: object, *, context: RenderContext) -> str:
    return printed(value, _evaluation(context))


@with_context
def _join(value: object, separator: object = " ", *, context: RenderContext) -> str:
    evaluation = _evaluation(context)
    items = list(value) if isinstance(value, (list, range)) else [value]
    between = str(spelled(separator))
    texts = [str(spelled(item)) for item in items]
    check_length(sum(map(len, texts)) + len(between) * len(texts))
    evaluation.spend(sum(map(len, texts)))
    return between.join(texts)


@with_context
def _date(value: object, pattern: object = "", zone: object = None, *, context: RenderContext) -> object:
    """A date by strftime's directives, in UTC unless it has an offset or a zone is named; others stay as they are."""
    moment = _evaluation(context).now() if value in ("now", "today") else _read(unwrapped(value))
    if moment is None:
        return value
    if zone:
        moment = in_zone(moment, zone_named(str(zone)))
    if not isinstance(pattern, str):
        raise FilterArgumentError("date needs a format such as '%Y-%m-%d'", token=None)
    return format_strftime(moment, pattern)


def _read(value: HogValue) -> datetime | None:
    moment = to_moment(value)
    if moment is not None or not isinstance(value, str):
        return moment
    text = value.strip()
    if text.isdecimal() and len(text) < 13:
        return to_moment(int(text))
    for pattern in _SPOKEN_DATES:
        try:
            return datetime.strptime(text, pattern).replace(tzinfo=UTC)
        except ValueError:
            continue
    try:
        mailed = parsedate_to_datetime(text)
    except ValueError:
        return None
    return mailed.replace(tzinfo=UTC) if mailed.tzinfo is None else mailed
