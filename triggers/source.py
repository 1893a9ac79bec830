"""What a source is: who sends, how an arrival is verified and read, and which events it means."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from loops.event import Delivery, Event


class Incoming(NamedTuple):
    """A request as it came. Headers are looked up by their names in lower case, and may hold any character; the body is
    raw."""

    headers: Mapping[str, str]
    body: bytes
    query_string: str = ""
    method: str = "POST"


class Topic(NamedTuple):
    """Where an event would stand in the index of loops; what it has not is None. `repository_id` tells under which
    other names it may stand."""

    event: str
    repository: str | None = None
    event_type: str | None = None
    channel: str | None = None
    repository_id: int | None = None


class Arrival(NamedTuple):
    """A verified and readable request, ready to be accepted.

    `key` is the sender's id of the delivery, `name` what the sender calls it; every text is storable. `parsed` is the
    source's own decode, kept in memory so that dispatch need not decode again. `ignored` is the reason of what is
    known and ignored: it is recorded, starts nothing, and is answered 200. `topics` are those of all its events, where
    the source can tell them without making the events: what no loop could listen for need not wait for dispatch.
    `told` are further texts of the answer, which the sender's protocol asks for. What is not `kept` is answered as
    ignored and not stored. `headers` are stored in place of those that the source names. `changes_rights` where it
    tells that somebody may now do something else than before.
    """

    key: str
    name: str
    subject: str | None
    parsed: object
    ignored: str | None = None
    verified: bool = True
    topics: tuple[Topic, ...] | None = None
    told: Mapping[str, str] = MappingProxyType({})
    kept: bool = True
    changes_rights: bool = False
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """A delivery that means no event, and why."""

    reason: str


class Source(Protocol):
    """One sender's protocol. Nothing here does I/O; `limit` is the most bytes of a body. `kept_headers` are stored with
    a delivery, by their names in lower case: what says what it is, never a signature or credential."""

    name: str
    limit: int
    kept_headers: tuple[str, ...]

    def receive(self, incoming: Incoming, secrets: Mapping[str, str]) -> Arrival:
        """Verify and read. Raises SignatureInvalid, or PayloadMalformed for what the sender never sends."""

    def parse(self, delivery: Delivery, parsed: object, settings: Mapping[str, Any]) -> list[Event] | Ignored:
        """The events of a delivery: the same whenever it is called. `parsed` is the Arrival's, None after a restart;
        `settings` the connection's, without secrets."""
