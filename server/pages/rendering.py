"""Templates, and the response that every page is: escaped, unscripted, cached by nobody."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from aiohttp import web
from markupsafe import Markup

from loops.brief import one_line
from server.cost_words import NO_PRICE
from server.pages import assets, words
from server.pages.addresses import path_of
from server.pages.inert import visible

_ID = re.compile(r"\b([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
# Referrer-Policy has to be same-origin: under no-referrer a browser sends `Origin: null` with a form, and over plain
# HTTP from another machine Origin is all that shows where a form came from.
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NOT_KEPT = {"Cache-Control": "no-store"}


def rendered(template: str, status: int = 200, **context: Any) -> web.Response:  # noqa: ANN401
    """A page. Whatever stands in the context is shown as text."""
    text = _templates().get_template(template).render(**context)
    return web.Response(text=text, status=status, content_type="text/html", headers={**SECURITY_HEADERS, **_NOT_KEPT})


def see_other(path: str) -> web.Response:
    """Send the browser to another page of ours."""
    return web.Response(status=303, headers={**SECURITY_HEADERS, **_NOT_KEPT, "Location": path})


@cache
def _templates() -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters |= {
        "instant": instant,
        "short_ids": short_ids,
        "clock_time": clock_time,
        "size": words.size_words,
        "sentence": words.sentence,
        "one_line": one_line,
        "count": "{:,}".format,
    }
    templates.globals |= {"path_of": path_of, "no_price": NO_PRICE, "asset": assets.address}
    return templates


def _finalize(value: object) -> object:
    """Every text on its way into a page: nothing in it acts, and None is nothing."""
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def short_ids(text: str) -> str:
    """A text with ids of ours cut to their beginning, as a list has room for."""
    return _ID.sub(r"\1…", text)


def instant(moment: datetime) -> Markup:
    """A moment to the second, in UTC; the whole of it stands in the element."""
    return Markup('<time datetime="{}">{} <span class="time">{}</span> <span class="zone">UTC</span></time>').format(
        _iso(moment), moment.strftime("%Y-%m-%d"), moment.strftime("%H:%M:%S")
    )


def clock_time(moment: datetime | str) -> Markup:
    """The time of day of a moment, to the millisecond, in UTC: for lines of a log."""
    moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return Markup('<time datetime="{}">{}</time>').format(
        _iso(moment), moment.strftime("%H:%M:%S.") + f"{moment.microsecond // 1000:03}"
    )


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
