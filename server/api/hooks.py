"""POST /hooks/{source}/{connection}: where senders deliver."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from time import monotonic, perf_counter
from typing import TypeVar

import msgspec
from aiohttp import ClientPayloadError, web

from loops.errors import DeliveryError, LoopsError, NotFound, PayloadMalformed, PayloadTooLarge, StoreBusy, StoreError
from loops.threads import off_loop
from server.metrics import Metrics
from server.services import Services
from triggers.costly import is_costly
from triggers.intake import Answer
from triggers.source import Incoming, Source

T = TypeVar("T")

log = logging.getLogger("loops.hooks")

_RETRY_AFTER = "5"
_QUIET_SECONDS = 1.0
_OURS = {503: ("the delivery could not be stored now", "send it again in a few seconds")}
_OUR_FAULT = ("the delivery could not be taken", "whoever runs this service finds the reason in its log")
_MOST_UNCOUNTED = 1000
_SMALL_BODY = 256 * 1024
_BODY_SECONDS = 30.0
_STATUS = {"accepted": 202, "duplicate": 200, "ignored": 200}
_JSON = {"Content-Type": "application/json"}
_json = msgspec.json.Encoder().encode


class BodyBudget:
    """Bounds the bytes of all bodies being received at once."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, size: int) -> None:
        """Raises StoreBusy when they do not fit now."""
        if size > self._left:
            raise StoreBusy("too many large bodies are being received at once", hint="send it again in a few seconds")
        self._left -= size

    def give_back(self, size: int) -> None:
        """They are stored, or refused."""
        self._left += size


class Beside:
    """Reads what is large beside the event loop, few at a time: everybody else's turn comes between two bits of it, and
    waits for as many bits as are read at once."""

    def __init__(self, at_once: int = 1) -> None:
        self._turns = asyncio.Semaphore(at_once)

    async def run(self, fn: Callable[[], T]) -> T:
        """Do that in its turn."""
        async with self._turns:
            return await off_loop(fn)


def receive_handler(
    services: Services, source: Source, budget: BodyBudget, beside: Beside
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The handler of one source."""
    counted = Counted(services.metrics, source.name)
    refused = Refused(source.name)

    async def receive(request: web.Request) -> web.Response:
        begun = perf_counter()
        try:
            response = await _receive(services, source, budget, beside, request)
        except LoopsError as error:
            response = refusal(error)
            refused.add(request.match_info["connection"], response.status, error)
        counted.add(response.status, perf_counter() - begun)
        return response

    return receive


class Counted:
    """Counts answers in plain numbers; the metrics take them when they are read, as this runs for every delivery."""

    def __init__(self, metrics: Metrics, source: str) -> None:
        self._metrics = metrics
        self._source = source
        self._answers: dict[int, list[float]] = {}
        metrics.before_reading(self.flush)

    def add(self, status: int, seconds: float) -> None:
        try:
            seen = self._answers[status]
        except KeyError:
            seen = self._answers[status] = []
        seen.append(seconds)
        if len(seen) >= _MOST_UNCOUNTED:
            self.flush()

    def flush(self) -> None:
        """Hand on what was counted."""
        for status, seen in self._answers.items():
            self._metrics.deliveries.labels(self._source, str(status)).inc(len(seen))
            for seconds in seen:
                self._metrics.delivery_accept_seconds.observe(seconds)
            seen.clear()


class Refused:
    """Logs why deliveries were refused; once a second for each connection and status, as they may come by the thousand.

    A reason in words is told only for what is wrong here: words about a delivery may repeat what its sender wrote.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._seen: dict[tuple[str, int], _Quiet] = {}

    def add(self, connection: str, status: int, error: LoopsError) -> None:
        now = monotonic()
        # Anybody can name connections that are not there: those are told as one, as is what is wrong here.
        key = ("" if status == 404 or status >= 500 else connection, status)
        quiet = self._seen.setdefault(key, _Quiet())
        quiet.refused += 1
        if now < quiet.until:
            return
        extra = {"source": self._source, "status": status, "code": error.code, "refused": quiet.refused}
        quiet.refused, quiet.until = 0, now + _QUIET_SECONDS
        if status >= 500:
            log.warning("deliveries are refused: %s", error.message, extra=extra)
        else:
            log.warning("deliveries are refused", extra=extra | {"connection": _shown(connection)})


@dataclass(slots=True)
class _Quiet:
    """How many were refused since the last line, and until when there is none."""

    refused: int = 0
    until: float = 0.0


def _shown(connection: str) -> str:
    """The id in an address as a log may show it; whoever sends can write anything there."""
    return connection if _is_id(connection) else "?"


async def _receive(
    services: Services, source: Source, budget: BodyBudget, beside: Beside, request: web.Request
) -> web.Response:
    connection_id = _number(request.match_info["connection"])
    opened = services.book.known(connection_id, source.name) or await services.book.get(connection_id, source.name)
    body, held = await read_body(request, source.limit, budget)
    try:
        incoming = Incoming(request.headers, body, request.raw_path.partition("?")[2])
        if is_costly(source.name, body):
            arrival = await beside.run(partial(source.receive, incoming, opened.secrets))
            answer = await services.intake.accept(source, opened, incoming, arrival)
        else:
            answer = await services.intake.receive(source, opened, incoming)
    finally:
        budget.give_back(held)
    return accepted(answer)


def accepted(answer: Answer) -> web.Response:
    """How a sender is told what became of its delivery."""
    told = {"delivery": answer.delivery, "status": answer.status, "reason": answer.reason}
    if answer.told:
        told |= answer.told
    return web.Response(status=_STATUS[answer.status], body=_json(told), headers=_JSON)


@lru_cache(maxsize=256)
def _number(text: str) -> int:
    if not _is_id(text):
        raise NotFound(f"{text!r} is not the id of a connection", hint="see: loops integrations list")
    return int(text)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


async def read_body(request: web.Request, limit: int, budget: BodyBudget) -> tuple[bytes, int]:
    """The body, and how many bytes of the budget it holds. Never reads far past the limit, whatever length was told.

    Only bytes that have arrived count, and of small bodies none: a stranger who sends large ones slowly, for half a
    minute each, can keep out other large ones and nothing else.
    """
    told = request.content_length
    if told is not None and told > limit:
        raise _too_large(limit)
    stream = request.content
    if stream.is_eof() and stream.total_bytes <= _SMALL_BODY and stream.exception() is None:
        return stream.read_nowait(), 0  # all of it came with the headers
    body = _Body(budget)
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in stream.iter_any():
                body.add(chunk)
                if body.size > limit:
                    break
    except TimeoutError as error:
        body.drop()
        message = f"the body did not arrive within {_BODY_SECONDS:.0f} s"
        raise PayloadMalformed(message, path="body", hint="send it again, faster") from error
    except (ClientPayloadError, ConnectionError) as error:
        body.drop()
        message = "the body could not be read to its end"
        raise PayloadMalformed(message, path="body", hint="send it again, whole") from error
    except BaseException:
        body.drop()
        raise
    if body.size > limit:
        body.drop()
        raise _too_large(limit)
    return b"".join(body.chunks), body.held


class _Body:
    """A body that is arriving, and what it holds of the budget."""

    def __init__(self, budget: BodyBudget) -> None:
        self.chunks: list[bytes] = []
        self.size = 0
        self.held = 0
        self._budget = budget

    def add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.chunks.append(chunk)
        if self.size > _SMALL_BODY:
            self._budget.take(self.size - self.held)
            self.held = self.size

    def drop(self) -> None:
        self._budget.give_back(self.held)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is over the limit of {limit} bytes", hint="send less at once")


def refusal(error: LoopsError) -> web.Response:
    """How a refusal is told to a sender: 4xx for what it did, 503 with Retry-After for what we could not.

    Of what is wrong here a sender learns nothing: the words of an error may name the database and its address.
    """
    status = error.http_status if isinstance(error, DeliveryError | StoreError) else 500
    headers = {"Retry-After": _RETRY_AFTER} if status == 503 else None
    message, hint = (error.message, error.hint) if status < 500 else _OURS.get(status, _OUR_FAULT)
    told = {"code": error.code, "message": message, "hint": hint}
    if error.path and status < 500:
        told["path"] = error.path
    return web.Response(status=status, body=_json({"error": told}), content_type="application/json", headers=headers)
