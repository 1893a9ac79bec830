"""A template's rendered inputs made a message: what templates rendered to is checked here, since no save could."""

import json
import re
from collections.abc import Callable, Mapping
from email.utils import getaddresses
from html import escape

from loops.definition.inputs.base import connection_number
from loops.errors import StepFailed
from loops.event import JsonValue
from loops.expressions import to_text
from notify.message import Address, EmailTarget, Message, PageTarget, SlackTarget
from notify.mime import LONGEST_LINE, one_line, wire_address
from notify.slack_blocks import faults

LARGEST = 1_000_000
"""How many bytes a message may hold."""
LONGEST_NAME = 200
LONGEST_CHANNEL = 100
DEEPEST_BLOCKS = 50
MOST_COPIES = 50
LONGEST_LIST = 20_000
_TS = re.compile(r"[0-9]{1,15}\.[0-9]{1,9}")
_BODY = re.compile(r"<body\b[^>]{0,2000}>", re.IGNORECASE)
_LIST_MEND = "give addresses with commas between them"
_BLOCKS_MEND = 'blocks must come to a list of Block Kit objects, as [{"type": "divider"}]'


def message_of(kind: str, inputs: Mapping[str, JsonValue], key: str) -> Message:
    """The message of a template's rendered inputs; `kind` is one of COMPOSERS. Raises StepFailed where they make
    none: the message says which input came to what, the hint what mends it."""
    message = COMPOSERS[kind](inputs, key)
    if message.size > LARGEST:
        raise StepFailed(
            f"the message came to {message.size:,} bytes: it may hold {LARGEST:,}",
            hint="let templates put less into it, and link to the rest",
        )
    return message


def slack_message(inputs: Mapping[str, JsonValue], key: str) -> Message:
    """Of template-slack. `text` is Markdown, as agents write it."""
    text, blocks = _text(inputs.get("text")), _blocks(inputs.get("blocks"))
    if not text.strip() and not blocks:
        raise StepFailed(
            "text and blocks came to nothing: the message would be empty",
            hint="look at what the step before it gave, or put words of your own into text",
        )
    target = SlackTarget(
        connection_id=connection_number(inputs.get("slack_workspace")),
        channel=_channel(inputs.get("channel")),
        thread=_thread(inputs.get("thread_ts")),
        username=_line(inputs.get("username"), LONGEST_NAME),
        icon_emoji=_line(inputs.get("icon_emoji"), LONGEST_NAME),
    )
    return Message(target, key, text, "markdown", blocks=blocks)


def email_message(inputs: Mapping[str, JsonValue], key: str) -> Message:
    """Of template-email: one input, `email`, that holds everything."""
    mail = _object(inputs.get("email"))
    text, html = _text(mail.get("text")), _text(mail.get("html"))
    if not text.strip() and not html.strip():
        raise StepFailed(
            "the text and html of the email came to nothing: it would be empty",
            hint="look at what the step before it gave, or put words of your own into text",
        )
    sender, to = _object(mail.get("from")), _object(mail.get("to"))
    target = EmailTarget(
        connection_id=connection_number(sender.get("integrationId")),
        to=(Address(_address(to.get("email"), "to.email"), _line(to.get("name"), LONGEST_NAME)),),
        sender=_sender(sender),
        cc=_addresses(mail.get("cc"), "cc"),
        bcc=_addresses(mail.get("bcc"), "bcc"),
        reply_to=_addresses(mail.get("replyTo"), "replyTo"),
    )
    html = _with_preheader(html, _text(mail.get("preheader"))) if html.strip() else ""
    return Message(target, key, text, "plain", html=html, subject=_line(mail.get("subject")))


def page_message(inputs: Mapping[str, JsonValue], key: str) -> Message:
    """Of a text that is for the page alone."""
    return Message(PageTarget(), key, _text(inputs.get("text")), "markdown")


COMPOSERS: Mapping[str, Callable[[Mapping[str, JsonValue], str], Message]] = {
    "slack": slack_message,
    "email": email_message,
    "page": page_message,
}
"""What makes a message of each kind."""


def _text(value: JsonValue) -> str:
    return "" if value is None else to_text(value)


def _line(value: JsonValue, most: int = LONGEST_LINE) -> str:
    return one_line(_text(value), most)


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _channel(value: JsonValue) -> str:
    """A channel's or person's id, or #name; of what a picker stores (`C123|#name`) the id."""
    mend = "name a channel by its id, such as C0123456789 (open its details in Slack: the id stands at the end)"
    if value is not None and not isinstance(value, str):
        raise StepFailed(f"channel came to {to_text(value)[:100]!r}, which is no text", hint=mend)
    channel = (value or "").split("|")[0].strip()
    if not channel:
        raise StepFailed("channel came to nothing", hint=mend)
    if len(channel) > LONGEST_CHANNEL or not channel.isprintable() or " " in channel:
        raise StepFailed(f"channel came to {channel[:100]!r}, which names no channel", hint=mend)
    return channel


def _thread(value: JsonValue) -> str:
    """The ts of the message to answer under; none where a template found none."""
    if value is None or value == "":
        return ""
    if isinstance(value, str) and _TS.fullmatch(value.strip()):
        return value.strip()
    raise StepFailed(
        f"thread_ts came to {to_text(value)[:100]!r}, which is no ts of a message",
        hint="give it as text, such as 1751800000.000100 or {event.properties.thread_ts}: a number loses its zeros",
    )


def _blocks(value: JsonValue) -> tuple[JsonValue, ...]:
    """Blocks as a list, as the object that Slack's Block Kit Builder gives, or as the JSON text of either."""
    if isinstance(value, str) and value.strip():
        if len(value) > LARGEST:
            raise StepFailed(f"blocks came to a text of {len(value):,} characters", hint=_BLOCKS_MEND)
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise StepFailed(f"blocks came to a text that is not JSON: {error}", hint=_BLOCKS_MEND) from error
    if isinstance(value, dict) and value.keys() == {"blocks"}:
        value = value["blocks"]
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    if not isinstance(value, list):
        raise StepFailed(f"blocks came to {to_text(value)[:100]!r}, which is no list", hint=_BLOCKS_MEND)
    fault = "blocks are nested too deep" if _is_deeper(value, DEEPEST_BLOCKS) else faults(value)
    if fault:
        raise StepFailed(fault, hint=_BLOCKS_MEND)
    return tuple(value)


def _is_deeper(value: JsonValue, most: int) -> bool:
    """Whether lists and objects stand within each other more than so many deep."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inner is not None and (most == 0 or any(_is_deeper(one, most - 1) for one in inner))


def _address(value: JsonValue, name: str) -> str:
    address = _text(value).strip()
    try:
        wire_address(address)
    except ValueError as error:
        told = str(error) if address else "nothing"
        raise StepFailed(f"{name} came to {told}", hint="it must be one address, such as ada@example.org") from error
    return address


def _addresses(value: JsonValue, name: str) -> tuple[Address, ...]:
    """The addresses of a text with commas between them; none where a template came to nothing."""
    text = _text(value).strip()
    if not text:
        return ()
    if len(text) > LONGEST_LIST:
        raise StepFailed(f"{name} came to a text of {len(text):,} characters", hint=_LIST_MEND)
    if len(f"{text}.".splitlines()) > 1:
        raise StepFailed(f"{name} came to more than one line", hint=_LIST_MEND)
    found = getaddresses([text])
    if len(found) > MOST_COPIES:
        raise StepFailed(f"{name} came to {len(found)} addresses", hint=f"at most {MOST_COPIES}; {_LIST_MEND}")
    return tuple(Address(_address(address, name), _line(shown, LONGEST_NAME)) for shown, address in found)


def _with_preheader(html: str, preheader: str) -> str:
    """The HTML with a line before all else, which only lists of mails show."""
    if not preheader.strip():
        return html
    hidden = f'<div style="display:none;max-height:0;overflow:hidden">{escape(preheader.strip())}</div>'
    body = _BODY.search(html)
    return f"{html[: body.end()]}{hidden}{html[body.end() :]}" if body else f"{hidden}{html}"


def _sender(sender: Mapping[str, JsonValue]) -> Address | None:
    """What the email shows instead of the connection's own address and name; None where it shows those."""
    name = _line(sender.get("name"), LONGEST_NAME)
    address = _address(sender["email"], "from.email") if sender.get("email") else ""
    return Address(address, name) if address or name else None
