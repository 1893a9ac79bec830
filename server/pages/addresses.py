"""Paths and queries of the pages. Whatever stands in one is quoted here, and what comes from one is checked here."""

import re
from datetime import datetime
from urllib.parse import quote, urlencode

from loops.errors import NotFound, RequestError
from loops.store.columns import from_micros, to_micros

HOME = "/deliveries"
SIGN_IN = "/sign-in"

_MOST_PATH = 2000
_MOST_ID = 300
_ID = re.compile(r"[0-9a-z]{1,40}", re.ASCII)
_CURSOR = re.compile(r"([0-9]{1,17})\.([0-9A-Za-z-]{1,64})", re.ASCII)


def path_of(*segments: str, **query: str | None) -> str:
    """`/a/b?c=d` with each part quoted; query parameters that are None are left out."""
    path = "/" + "/".join(quote(segment, safe="") for segment in segments)
    asked = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(asked)}" if asked else path


def local_path(text: str | None) -> str:
    """The path, if it leads to a page of ours and nowhere else; else the first page.

    Browsers read `//host`, `/\\host` and both with tabs or line ends in them as addresses of another host.
    """
    if not text or len(text) > _MOST_PATH or not text.startswith("/") or text.startswith(("//", SIGN_IN)):
        return HOME
    if not text.isprintable() or "\\" in text or " " in text:
        return HOME
    return quote(text, safe="/?&=#%:,;@!$'()*+~")


def wanted_id(text: str, what: str) -> str:
    """An id as it came in a path. Raises NotFound for what can be the id of nothing."""
    if len(text) > _MOST_ID or not text.isprintable():
        raise NotFound(f"there is no such {what}")
    return text


def one_of(text: str | None, known: tuple[str, ...], what: str) -> str | None:
    """A word of a closed set, None when it is not given. Raises RequestError."""
    if not text:
        return None
    if text not in known:
        raise RequestError(f"{text[:40]!r} is no {what}", hint=f"one of {', '.join(known)}", path=what)
    return text


def delivery_cursor(text: str | None) -> str | None:
    """The id that a page of deliveries lies below. Raises RequestError."""
    if text and not _ID.fullmatch(text):
        raise RequestError("this is no place in the list of deliveries", hint="begin at the newest", path="before")
    return text or None


def outbox_cursor(text: str | None) -> str | None:
    """The id that a page of messages lies below. Raises RequestError."""
    if text and not _ID.fullmatch(text):
        raise RequestError("this is no place in the outbox", hint="begin at the newest", path="before")
    return text or None


def run_cursor(text: str | None) -> tuple[datetime, str] | None:
    """The (created_at, id) that a page of runs lies below. Raises RequestError."""
    return _moment_cursor(text, "the list of runs")


def moment_cursor_text(created_at: datetime, row_id: str) -> str:
    """The place of a run or schedule in its list, for a query."""
    return f"{to_micros(created_at)}.{row_id}"


def schedule_cursor(text: str | None) -> tuple[datetime, str] | None:
    """The (created_at, id) that a page of schedules lies below. Raises RequestError."""
    return _moment_cursor(text, "the list of schedules")


def _moment_cursor(text: str | None, what: str) -> tuple[datetime, str] | None:
    if not text:
        return None
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise RequestError(f"this is no place in {what}", hint="begin at the newest", path="before")
    return from_micros(int(found[1])), found[2]
