"""Structured logs: one JSON object, or one readable line, for each record.

Every text is masked and has its control characters escaped, so that a line never shows a secret, and an event's text
never looks like a line of its own.
"""

import json
import logging
import math
import re
import sys
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal, TextIO, TypeAlias

from aiohttp.http_exceptions import HttpProcessingError

from loops.connections.secrets import MASKED, Mask
from loops.log_context import bound_ids, log_context

__all__ = ["LogSecrets", "log_context", "setup_logging"]

Scalar: TypeAlias = bool | int | float | str | None

QUIET = (
    "alembic",
    "apscheduler",
    "asyncio",
    "github",
    "httpcore",
    "httpx",
    "mcp",
    "slack_bolt",
    "slack_sdk",
    "sse_starlette",
    "urllib3",
)
ENGINE = "dbos"

# Secrets that are known by their form alone: API tokens, of which only digests are kept, and signatures.
_BY_FORM = re.compile(r"loops_[A-Za-z0-9_-]{43}|sha256=[0-9a-fA-F]{64}")
_CANCELLED = {"DBOSWorkflowCancelledError", "DBOSAwaitedWorkflowCancelledError"}
_ENGINE_FIELDS = {"applicationID", "applicationVersion", "executorID", "operationUUID", "traceId"}
_OWN_FIELDS = {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName", *_ENGINE_FIELDS}
# C0, C1, line and paragraph separators, marks that change the direction of text, lone surrogates.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BARE = re.compile(r"[^\s=\"\\]+")


class LogSecrets:
    """The secret values that no log line may show. Values can be added while the service runs."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(values)
        self._mask = Mask(self._values)

    def add(self, values: Iterable[str]) -> None:
        added = self._values | frozenset(values)
        if added != self._values:
            self._values, self._mask = added, Mask(added)

    def mask_values(self, text: str) -> str:
        """The text without the secret values; what only has the form of a secret stays."""
        return self._mask(text)

    def mask(self, text: str) -> str:
        return _BY_FORM.sub(MASKED, self._mask(text))


def setup_logging(
    level: Literal["debug", "info", "warning", "error"],
    log_format: Literal["json", "text"],
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> LogSecrets:
    """Send all logs to `stream` (standard error by default); calling it again replaces the former set-up.

    Returns the register of secrets, to which the values of opened connections are added.
    """
    register = LogSecrets(secrets)
    handler = _ServiceHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter(register) if log_format == "json" else _TextFormatter(register))
    handler.addFilter(lambda record: _is_wanted(record, verbose=level == "debug"))
    root = logging.getLogger()
    root.setLevel(level.upper())
    # The engine gives its logger a handler of its own, past the mask, when it finds none there.
    engine = logging.getLogger(ENGINE)
    engine.propagate = False
    for logger in (root, engine):
        for former in [one for one in logger.handlers if isinstance(one, _ServiceHandler) or logger is engine]:
            logger.removeHandler(former)
        logger.addHandler(handler)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("aiohttp.access").setLevel(logging.CRITICAL + 1)
    return register


class _ServiceHandler(logging.StreamHandler[TextIO]):
    """Ours among the handlers of the root logger."""


def _is_wanted(record: logging.LogRecord, *, verbose: bool) -> bool:
    """Leaves out what the engine says of its daily work, and its tracebacks for workflows that were cancelled."""
    if record.name == "aiohttp.server" and record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        return False  # a stranger's broken request, with its headers: as many lines as anybody likes to send
    if record.name.partition(".")[0] != ENGINE:
        return True
    if not verbose and record.levelno < logging.WARNING:
        return False
    error = record.exc_info[1] if record.exc_info else None
    return error is None or type(error).__name__ not in _CANCELLED


class _Formatter(logging.Formatter):
    def __init__(self, secrets: LogSecrets) -> None:
        super().__init__()
        self._secrets = secrets

    def _message(self, record: logging.LogRecord) -> str:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            # Arguments that do not fit the text; the library's own report of that would go past the mask.
            message = f"{record.msg} {record.args!r}"
        return self._secrets.mask(message)

    def _fields(self, record: logging.LogRecord) -> dict[str, Scalar]:
        extra = {name: value for name, value in record.__dict__.items() if name not in _OWN_FIELDS}
        return {name: self._scalar(value) for name, value in {**bound_ids(), **extra}.items()}

    def _scalar(self, value: object) -> Scalar:
        if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        return self._secrets.mask(str(value))

    def _traceback(self, record: logging.LogRecord) -> str:
        if not record.exc_info:
            return self._secrets.mask(record.exc_text or "")
        return self._secrets.mask("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))


class _JsonFormatter(_Formatter):
    """ASCII only: whatever reads the file, no character in it acts."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Scalar] = {
            "time": _instant(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._message(record),
        }
        # An extra field cannot take the place of one of these four.
        line |= {name if name not in line else f"{name}_": value for name, value in self._fields(record).items()}
        if record.exc_info and record.exc_info[0]:
            line["error"] = record.exc_info[0].__name__
        if shown := self._traceback(record):
            line["traceback"] = shown
        return json.dumps(line)


class _TextFormatter(_Formatter):
    """Lines of a traceback are set apart by a bar, so that nothing inside one looks like a record."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {_escaped(name)}={_word(value)}" for name, value in self._fields(record).items())
        message = _escaped(self._message(record))
        first = f"{_instant(record)} {record.levelname:<7} {record.name}: {message}{fields}"
        shown = self._traceback(record)
        return "\n".join([first, *(f"  | {_escaped(line)}" for line in shown.split("\n") if shown)])


def _instant(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _word(value: Scalar) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) and not _CONTROL.search(text) else json.dumps(text)


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)
