"""What leaves: a message, where it goes, and what sending it came to. Values only."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from html import escape
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from loops.event import JsonValue

_MARK = "[incomplete]"
_LISTS = ("to", "cc", "bcc", "reply_to")
Kind = Literal["slack", "email", "page"]
CONNECTION_KIND: Mapping[str, str] = {"slack": "slack", "email": "smtp"}
"""The kind of connection that a kind of target leaves over; none for what is for the page."""
Format = Literal["markdown", "mrkdwn", "plain"]


@dataclass(frozen=True, slots=True)
class Address:
    """An email address and the name beside it."""

    email: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class SlackTarget:
    """A channel by its id (or #name), or a person by user id; `thread` is the ts of the message to answer under."""

    kind: ClassVar[Kind] = "slack"

    connection_id: int | None
    channel: str
    thread: str = ""
    username: str = ""
    icon_emoji: str = ""

    @property
    def addressee(self) -> str:
        """Where it goes, in words."""
        return f"{self.channel}, in the thread of {self.thread}" if self.thread else self.channel


@dataclass(frozen=True, slots=True)
class EmailTarget:
    """Who gets an email, those in `bcc` unseen by the others; `sender` takes the place of the connection's own address,
    or only of its name, and answers go to `reply_to` where that names somebody."""

    kind: ClassVar[Kind] = "email"

    connection_id: int | None
    to: tuple[Address, ...]
    sender: Address | None = None
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    reply_to: tuple[Address, ...] = ()

    @property
    def addressee(self) -> str:
        """Where it goes, in words."""
        copies = [f"{name} {one.email}" for name, those in (("cc", self.cc), ("bcc", self.bcc)) for one in those]
        return ", ".join([*(one.email for one in self.to), *copies])


@dataclass(frozen=True, slots=True)
class PageTarget:
    """Nobody but whoever looks at the page."""

    kind: ClassVar[Kind] = "page"

    connection_id: ClassVar[None] = None
    addressee: ClassVar[str] = ""


Target: TypeAlias = SlackTarget | EmailTarget | PageTarget


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be said. `key` is the same whenever the same message is asked for again: it is sent once.

    `format` says how `text` is written: Markdown, Slack's mrkdwn, or plain. `mentions` are the only Slack tokens
    (`<@U1>`, `<!here>`) that may ping, wherever they stand in the text. `blocks` are Slack's; `subject` and `html` an
    email's, an empty `html` sends text alone.
    """

    target: Target
    key: str
    text: str = ""
    format: Format = "markdown"
    html: str = ""
    subject: str = ""
    blocks: Sequence[JsonValue] = ()
    mentions: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """How much it says, in bytes."""
        blocks = json.dumps(list(self.blocks), ensure_ascii=False) if self.blocks else ""
        return sum(len(said.encode("utf-8", "replace")) for said in (self.text, self.html, self.subject, blocks))

    def masked(self, mask: Callable[[str], str]) -> "Message":
        """The message with `mask` over all that people will read."""
        blocks = _masked(list(self.blocks), mask)
        return replace(
            self,
            text=mask(self.text),
            html=mask(self.html),
            subject=mask(self.subject),
            blocks=tuple(blocks) if isinstance(blocks, list) else (),
        )

    def noticed(self, notice: str) -> "Message":
        """The message with a notice before all that it says, in each of its forms."""
        section: JsonValue = {"type": "section", "text": {"type": "plain_text", "text": notice[:2900]}}
        return replace(
            self,
            text=f"{notice}\n\n{self.text}".rstrip(),
            html=f"<p><strong>{escape(notice)}</strong></p>\n{self.html}" if self.html else "",
            subject=f"{_MARK} {self.subject}".rstrip() if self.subject else "",
            blocks=(section, *self.blocks) if self.blocks else (),
        )

    def as_json(self) -> dict[str, Any]:
        """What from_json reads."""
        return {
            "target": _target_json(self.target),
            "key": self.key,
            "text": self.text,
            "format": self.format,
            "html": self.html,
            "subject": self.subject,
            "blocks": list(self.blocks),
            "mentions": sorted(self.mentions),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Message":
        """The message that was stored."""
        return cls(
            target=_read_target(stored["target"]),
            key=stored["key"],
            text=stored["text"],
            format=stored["format"],
            html=stored["html"],
            subject=stored["subject"],
            blocks=tuple(stored["blocks"]),
            mentions=frozenset(stored["mentions"]),
        )


def _masked(value: JsonValue, mask: Callable[[str], str]) -> JsonValue:
    match value:
        case str():
            return mask(value)
        case list():
            return [_masked(one, mask) for one in value]
        case dict():
            return {name: _masked(one, mask) for name, one in value.items()}
    return value


def _target_json(target: Target) -> dict[str, Any]:
    match target:
        case SlackTarget():
            return {
                "kind": target.kind,
                "connection_id": target.connection_id,
                "channel": target.channel,
                "thread": target.thread,
                "username": target.username,
                "icon_emoji": target.icon_emoji,
            }
        case EmailTarget():
            sender = target.sender
            return {
                "kind": target.kind,
                "connection_id": target.connection_id,
                "sender": None if sender is None else {"email": sender.email, "name": sender.name},
                **{name: [{"email": one.email, "name": one.name} for one in getattr(target, name)] for name in _LISTS},
            }
    return {"kind": target.kind}


def _read_target(stored: Mapping[str, Any]) -> Target:
    values = {name: value for name, value in stored.items() if name != "kind"}
    if stored["kind"] == "slack":
        return SlackTarget(**values)
    if stored["kind"] == "email":
        sender = stored["sender"]
        lists = {name: tuple(Address(**one) for one in stored.get(name, ())) for name in _LISTS}
        return EmailTarget(stored["connection_id"], sender=None if sender is None else Address(**sender), **lists)
    return PageTarget()


@dataclass(frozen=True, slots=True)
class Sent:
    """The service took it and calls it `ref`; `missed` are lines on recipients that it refused beside the others."""

    ref: str
    missed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """It was not sent and never will be as things are. `code` is stable; `mend` what a person can do."""

    code: str
    reason: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """It was surely not sent, and may be later. `after` in seconds, where the service named a time; `whole` when that
    time holds for all that goes over the connection."""

    reason: str
    after: float | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Uncertain:
    """It may have been sent, or not: nobody knows."""

    reason: str


Outcome: TypeAlias = Sent | Refused | Retry | Uncertain


@dataclass(frozen=True, slots=True)
class Absent:
    """All there is was read, and the message is not among it."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Whether it was sent could not be found out; `again` when asking later may tell."""

    reason: str
    again: bool = False


Settlement: TypeAlias = Sent | Absent | Unsettled


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A stored message about to be sent, part by part: `refs` are the parts that are there. `began_at` is when the
    attempt at the next part began, `page` the address at which people read the whole of it."""

    id: str
    message: Message
    created_at: datetime
    refs: tuple[str, ...] = ()
    began_at: datetime | None = None
    page: str = ""

    @property
    def part(self) -> int:
        """The number of the part that is next, from 0."""
        return len(self.refs)


class Notifier(Protocol):
    """One connection that messages leave through."""

    async def parts(self, message: Message) -> int | Refused:
        """How many sends the message takes: one, unless the service wants long ones in parts. Refused where it cannot
        be made into what the service takes."""

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Send the next part, once. Never raises for what a network or a service can do."""

    async def settle(self, outgoing: Outgoing) -> Settlement:
        """Find out whether the next part, whose sending is uncertain, is there."""


@dataclass(frozen=True, slots=True)
class Unconnected:
    """There is no way to send. The message is shown on the page instead where the project has no connection of the
    kind at all (`alone`), else refused."""

    reason: str
    mend: str = ""
    alone: bool = True


class Notifiers(Protocol):
    """Finds who sends."""

    async def of(self, target: Target, project_id: str) -> Notifier | Unconnected:
        """The notifier for a target of a project. Raises LoopsError when that cannot be told now."""
