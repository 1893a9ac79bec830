"""/hooks/in/{token}: requests to the addresses of workflows."""

from collections.abc import Awaitable, Callable
from time import perf_counter

from aiohttp import web

from loops.errors import LoopsError, MethodNotTaken
from loops.webhooks import webhook_at
from server.api.hooks import BodyBudget, Counted, Refused, accepted, read_body, refusal
from server.services import Services
from triggers.source import Incoming
from triggers.webhook import WebhookSource


def webhook_handler(
    services: Services, source: WebhookSource, budget: BodyBudget
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The handler of every webhook."""
    counted = Counted(services.metrics, source.name)
    refused = Refused(source.name)

    async def receive(request: web.Request) -> web.Response:
        begun = perf_counter()
        try:
            response = await _receive(services, source, budget, request)
        except LoopsError as error:
            response = refusal(error)
            if isinstance(error, MethodNotTaken):
                response.headers["Allow"] = error.allowed
            # Only the number in front of a token may be logged.
            refused.add(request.match_info["token"].partition("-")[0], response.status, error)
        counted.add(response.status, perf_counter() - begun)
        return response

    return receive


async def _receive(services: Services, source: WebhookSource, budget: BodyBudget, request: web.Request) -> web.Response:
    opened = await webhook_at(services.book, request.match_info["token"])
    body, held = await read_body(request, source.limit, budget)
    try:
        incoming = Incoming(request.headers, body, request.raw_path.partition("?")[2], request.method)
        arrival = source.understood(source.receive(incoming, opened.secrets), opened.config)
        answer = await services.intake.accept(source, opened, incoming, arrival)
    finally:
        budget.give_back(held)
    return accepted(answer)
