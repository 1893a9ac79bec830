"""/hooks/in/{token}: requests to the addresses of workflows."""

from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

from aiohttp import web

from loops.connections.book import OpenConnection
from loops.errors import LoopsError, MethodNotTaken
from loops.webhooks import webhook_at
from server.api.hooks import Beside, BodyBudget, Counted, Refused, accepted, read_body, refusal
from server.services import Services
from triggers.costly import is_costly
from triggers.source import Arrival, Incoming
from triggers.webhook import WebhookSource


def webhook_handler(
    services: Services, source: WebhookSource, budget: BodyBudget, beside: Beside
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The handler of every webhook."""
    counted = Counted(services.metrics, source.name)
    refused = Refused(source.name)

    async def receive(request: web.Request) -> web.Response:
        begun = perf_counter()
        try:
            response = await _receive(services, source, budget, beside, request)
        except LoopsError as error:
            response = refusal(error)
            if isinstance(error, MethodNotTaken):
                response.headers["Allow"] = error.allowed
            # Only the number in front of a token may be logged.
            refused.add(request.match_info["token"].partition("-")[0], response.status, error)
        counted.add(response.status, perf_counter() - begun)
        return response

    return receive


async def _receive(
    services: Services, source: WebhookSource, budget: BodyBudget, beside: Beside, request: web.Request
) -> web.Response:
    opened = await webhook_at(services.book, request.match_info["token"])
    body, held = await read_body(request, source.limit, budget)
    try:
        incoming = Incoming(request.headers, body, request.raw_path.partition("?")[2], request.method)
        read = partial(_read, source, incoming, opened)
        arrival = await beside.run(read) if is_costly(source.name, body) else read()
        answer = await services.intake.accept(source, opened, incoming, arrival)
    finally:
        budget.give_back(held)
    return accepted(answer)


def _read(source: WebhookSource, incoming: Incoming, opened: OpenConnection) -> Arrival:
    return source.understood(source.receive(incoming, opened.secrets), opened.config)
