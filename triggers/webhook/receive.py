"""Any webhook: verified where it has a secret, then read."""

import re
import secrets as random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from loops.errors import MethodNotTaken, PayloadMalformed
from loops.event import Delivery, Event
from loops.storable import storable_text
from triggers.posthog.signature import ID
from triggers.source import Arrival, Ignored, Incoming
from triggers.webhook.event import (
    METHOD,
    QUERY,
    SOURCE,
    Request,
    meaning,
    request_of,
    requested,
    stored_request,
    to_event,
)
from triggers.webhook.signature import verify

IDS = (
    "idempotency-key",
    "x-idempotency-key",
    "webhook-id",
    "svix-id",
    "x-webhook-id",
    "x-delivery-id",
    "x-github-delivery",
    "x-gitlab-webhook-uuid",
    "x-shopify-webhook-id",
    "linear-delivery",
)
"""Headers that hold the sender's id of a delivery, the first that came counts; where one is signed, it alone."""

_KEPT = ("content-type", "user-agent", *IDS)
_CREDENTIAL = re.compile(r"auth|token|secret|signature|cookie|hmac|passw|credential|session|jwt|api-?key")
_LONGEST_KEY = 200
_LONGEST_HEADER = 2000
_LONGEST_SHOWN = 200


class WebhookSource:
    """Requests to the addresses of workflows. What one means stands in its workflow's trigger."""

    name = SOURCE
    limit = 1024 * 1024
    kept_headers: tuple[str, ...] = _KEPT

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """`now` is what the time in a signature is held against."""
        self._now = now

    def receive(self, incoming: Incoming, secrets: Mapping[str, str]) -> Arrival:
        """Verify with `webhook_secret`, where the webhook has one, then read. Without one nobody is verified.

        A signature is over the body: of a request that is proved by one the query is not read. Where it is over an id
        as well, no other header says which delivery this is: whoever captured the request could set that anew.
        """
        secret = secrets.get("webhook_secret", "")
        proof = verify(incoming.headers, incoming.body, secret, self._now()) if secret else "request"
        key = _key(incoming.headers, (ID,) if proof == "id" else IDS)
        query = storable_text(incoming.query_string) if proof == "request" else ""
        headers = {name.lower(): storable_text(value[:_LONGEST_HEADER]) for name, value in incoming.headers.items()}
        request = request_of(incoming.method, headers, query, incoming.body)
        kept = {METHOD: incoming.method, **({QUERY: query} if query else {}), **_chosen(request.headers, frozenset())}
        return Arrival(key, incoming.method, None, request, verified=bool(secret), headers=kept)

    def understood(self, arrival: Arrival, settings: Mapping[str, Any]) -> Arrival:
        """The arrival as the workflow's templates understand it; `settings` are the connection's.

        Raises MethodNotTaken, or PayloadMalformed that names what of the request makes no event.
        """
        trigger = requested(settings)
        request = arrival.parsed
        if not isinstance(request, Request):
            raise TypeError("an arrival of another source")
        if request.method != trigger.method:
            raise MethodNotTaken(request.method, trigger.method)
        kept = {**(arrival.headers or {}), **_chosen(request.headers, trigger.headers)}
        seen = Request(request.method, kept, request.query, request.body)
        meant = meaning(seen, trigger)
        told = {"event": meant.name, "distinct_id": meant.distinct_id} if trigger.debug else {}
        return arrival._replace(
            name=meant.name[:_LONGEST_SHOWN], parsed=seen, ignored=meant.ignored, told=told, headers=kept
        )

    def parse(self, delivery: Delivery, parsed: object, settings: Mapping[str, Any]) -> list[Event] | Ignored:
        """Its event, or why there is none: the trigger may have changed since the request was taken."""
        try:
            request = parsed if isinstance(parsed, Request) else stored_request(delivery)
            meant = meaning(request, requested(settings))
        except PayloadMalformed as error:
            return Ignored(error.message)
        return [to_event(delivery, meant)] if meant.ignored is None else Ignored(meant.ignored)


def _key(headers: Mapping[str, str], names: Sequence[str]) -> str:
    """The sender's id of the delivery, in one of these headers; where it sends none, nothing tells a repetition from
    another request."""
    for name in names:
        key = headers.get(name, "").strip()
        if len(key) > _LONGEST_KEY:
            message = f"the header {name} is longer than {_LONGEST_KEY} characters"
            raise PayloadMalformed(message, path=name, hint="send a shorter id")
        if key:
            return storable_text(key)
    return random.token_hex(16)


def _chosen(headers: Mapping[str, str], wanted: frozenset[str]) -> dict[str, str]:
    """The headers that are kept: what says what a request is, and what the templates read, never a credential."""
    names = (*_KEPT, *sorted(name for name in wanted if not _CREDENTIAL.search(name)))
    return {name: headers[name] for name in names if name in headers}
