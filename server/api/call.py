"""One API call: what a handler reads from a request, and how it answers."""

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn, Protocol, TypeAlias, TypeVar

from aiohttp import ClientPayloadError, web

from loops.definition.findings import suggestion
from loops.errors import LoopsError, NotFound, RequestError
from loops.event import JsonValue
from server.auth import Principal
from server.services import Services

T = TypeVar("T")

MOST_ITEMS = 200
USUAL_ITEMS = 50

_LONGEST_PIECE = 300
_LAST_ID = 2**31
_MOST_OFFSET_DIGITS = 6
_PAGE_PARAMETERS = ("limit", "cursor")


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is asked for: at most `limit` items after what `after` names."""

    limit: int
    after: tuple[str, ...] | None


class Asked(Protocol):
    """What is read of whoever asks: a request over HTTP, or the arguments of a tool."""

    @property
    def match_info(self) -> Mapping[str, str]:
        """The pieces of the path."""

    @property
    def query(self) -> Mapping[str, str]: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    async def read(self) -> bytes:
        """The body."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose sender is known and may make it."""

    request: Asked
    services: Services
    principal: Principal

    @property
    def project(self) -> str:
        return self.principal.project_id

    def piece(self, name: str) -> str:
        """A piece of the path that is somebody's id. NotFound where nothing can have it."""
        text = self.request.match_info[name]
        if not text.isprintable() or len(text) > _LONGEST_PIECE:
            raise NotFound("there is nothing with such an id")
        return text

    def number(self, name: str) -> int:
        """A piece of the path that is a row's number."""
        text = self.piece(name)
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(_LAST_ID)) and int(text) < _LAST_ID):
            raise NotFound(f"{text!r} is not the id of anything here")
        return int(text)

    def query(self, *names: str, page: bool = False) -> Mapping[str, str]:
        """The parameters of the query, each at most once. RequestError for one that is not among `names`."""
        known = (*names, *_PAGE_PARAMETERS) if page else names
        given: dict[str, str] = {}
        for name, value in self.request.query.items():
            if name not in known:
                hint = suggestion(name, known) if known else "this takes none"
                raise RequestError(f"{name[:60]!r} is not a parameter of this list", hint=hint, path=name[:60])
            if name in given:
                raise RequestError(f"{name} stands twice", hint="give it once", path=name)
            if not value.isprintable() or len(value) > _LONGEST_PIECE:
                raise RequestError(f"{name} does not fit", hint="give one value of it", path=name)
            given[name] = value
        return given

    def choice(self, given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str | None:
        """A parameter that takes certain words only."""
        value = given.get(name)
        if value is not None and value not in choices:
            raise RequestError(f"{value!r} is not a {name}", hint=f"one of {', '.join(choices)}", path=name)
        return value

    def page(self, given: Mapping[str, str], keys: int) -> Page:
        """The page that the query asks for; its cursor holds `keys` texts."""
        text = given.get("limit", str(USUAL_ITEMS))
        if not (text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= MOST_ITEMS):
            raise RequestError(f"{text!r} is not a limit", hint=f"from 1 to {MOST_ITEMS}", path="limit")
        cursor = given.get("cursor")
        return Page(int(text), None if cursor is None else _opened(cursor, keys))

    async def document(self, *keys: str) -> dict[str, JsonValue]:
        """The body, a JSON object with no other keys than these. RequestError says where it is not that."""
        body = await self.free_document()
        for key in body:
            if key not in keys:
                hint = suggestion(key, keys) if keys else "send an empty object, or nothing"
                raise RequestError(f"{key[:60]!r} is not a key of this request", hint=hint, path=key[:60])
        return body

    async def free_document(self) -> dict[str, JsonValue]:
        """The body, any JSON object."""
        try:
            return _object(await self.request.read())
        except (ClientPayloadError, web.RequestPayloadError, ConnectionError) as error:
            raise RequestError("the body could not be read to its end", hint="send it again, whole") from error


Handler: TypeAlias = Callable[[Call], Awaitable[web.Response]]


def answer(value: object, status: int = 200) -> web.Response:
    """JSON. Half of a surrogate pair, which UTF-8 cannot hold, becomes a question mark."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return web.Response(status=status, body=text.encode("utf-8", "replace"), content_type="application/json")


def listed(
    items: Sequence[T], limit: int, key: Callable[[T], tuple[str, ...]], shown: Callable[[T], object]
) -> web.Response:
    """A page of a list, from up to `limit` + 1 rows: one more than asked for says that there is a next page."""
    return answer({"items": [shown(one) for one in items[:limit]], "next": page_end(items, limit, key)})


def page_end(items: Sequence[T], limit: int, key: Callable[[T], tuple[str, ...]]) -> str | None:
    """The cursor of the page after this one, from up to `limit` + 1 rows; None where there is none."""
    return _closed(key(items[limit - 1])) if len(items) > limit else None


SHORTEST_PREFIX = 6


def prefix_of(given: Mapping[str, str]) -> str | None:
    """What wanted ids begin with. RequestError where that is too short to tell them apart."""
    prefix = given.get("prefix")
    if prefix is not None and len(prefix) < SHORTEST_PREFIX:
        hint = f"give the first {SHORTEST_PREFIX} characters of the id, or more"
        raise RequestError(f"{prefix!r} is too short a beginning of an id", hint=hint, path="prefix")
    return prefix


def instant_key(at: datetime, row_id: str) -> tuple[str, str]:
    """The cursor of a list that is in order of (instant, id)."""
    return at.isoformat(), row_id


def instant_after(page: Page) -> tuple[datetime, str] | None:
    """Where a list in order of (instant, id) goes on."""
    if page.after is None:
        return None
    try:
        at = datetime.fromisoformat(page.after[0])
        return at.astimezone(UTC), page.after[1]
    except (ValueError, OverflowError):
        _bad_cursor()


def instant(value: JsonValue, name: str) -> datetime:
    """An instant of a body or query, which `name` is the key of."""
    hint = "as 2026-11-30T09:00:00Z"
    if not isinstance(value, str):
        raise RequestError(f"{name} is missing" if value is None else f"{name} is no text", hint=hint, path=name)
    try:
        found = datetime.fromisoformat(value)
        if found.tzinfo is None:
            raise RequestError(f"{name} has no offset", hint=hint, path=name)
        return found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise RequestError(f"{name} is no instant", hint=hint, path=name) from error


def sliced(items: Sequence[T], limit: int, offset: int, shown: Callable[[T], object]) -> web.Response:
    """A page of a list that is at hand as a whole; its `next` is the offset of the page after it."""
    kept, end = items[offset : offset + limit], offset + limit
    return answer({"items": [shown(one) for one in kept], "next": end if end < len(items) else None})


def offset_of(given: Mapping[str, str]) -> int:
    """How many items a list that is not ours passes over."""
    text = given.get("offset", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_OFFSET_DIGITS):
        raise RequestError(f"{text!r} is not an offset", hint="how many items to pass over, as 50", path="offset")
    return int(text)


def number_after(page: Page) -> int | None:
    """Where a list in order of row numbers goes on."""
    if page.after is None:
        return None
    text = page.after[0]
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_LAST_ID))):
        _bad_cursor()
    return int(text)


def _closed(after: tuple[str, ...]) -> str:
    return base64.urlsafe_b64encode(json.dumps(after).encode()).decode("ascii").rstrip("=")


def _opened(cursor: str, keys: int) -> tuple[str, ...]:
    try:
        texts = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        _bad_cursor()
    whole = isinstance(texts, list) and len(texts) == keys
    if not whole or not all(isinstance(text, str) and text.isprintable() for text in texts):
        _bad_cursor()
    return tuple(texts)


def _bad_cursor() -> NoReturn:
    raise RequestError("the cursor is none of ours", hint="pass `next` of the page before, unchanged", path="cursor")


def _object(body: bytes) -> dict[str, JsonValue]:
    if not body.strip():
        return {}
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise RequestError(f"the body is not UTF-8: byte {error.start}", hint="send JSON in UTF-8") from error
    except json.JSONDecodeError as error:
        raise RequestError(
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            hint="send one JSON object",
        ) from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is not JSON that can be read: {error}", hint="send one JSON object") from error
    if not isinstance(value, dict):
        raise RequestError(f"the body is {_kind(value)}, not an object", hint='as {"key": "value"}')
    return value


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _kind(value: object) -> str:
    kinds = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def told(error: LoopsError) -> dict[str, object]:
    """An error as every surface tells it."""
    shown: dict[str, object] = {"code": error.code, "message": error.message}
    if error.path:
        shown["path"] = error.path
    if error.hint:
        shown["hint"] = error.hint
    return shown
