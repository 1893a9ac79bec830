"""A message as the bytes of an email: headers that stay one line each, whatever was written into them."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.errors import MessageError
from email.header import Header, decode_header, make_header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, formataddr

from notify.message import Address, Message

_ADDRESS = re.compile(r"[^\s@<>()\[\],;:\\\"\x00-\x1f\x7f]{1,64}@[^\s@<>()\[\],;:\\\"\x00-\x1f\x7f]{1,255}")
_HEADER_WIDTH = 76
LONGEST_LINE = 1000
"""How many characters a text in a header has at most."""
_POLICY = SMTP.clone(cte_type="7bit")
_MOST_DECODINGS = 5
_ASCII = re.compile(r"[!-~](?:[\x00-\x7f]*[!-~])?")
_DOMAIN = re.compile(r"[A-Za-z0-9_.-]{1,255}")
# Marks that turn the direction of what follows, by which a subject can seem to say what it does not.
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Mail:
    """What goes to the server: `sender` and `recipients` are the envelope's."""

    sender: str
    recipients: tuple[str, ...]
    message_id: str
    content: bytes


def compose(
    message: Message,
    outbox_id: str,
    created_at: datetime,
    sender: Address,
    to: Sequence[Address],
    *,
    cc: Sequence[Address] = (),
    bcc: Sequence[Address] = (),
    reply_to: Sequence[Address] = (),
) -> Mail:
    """The email; nothing in it names those in `bcc`. Its Message-ID and Date depend on the outbox alone: sent twice, it
    is the same email."""
    domain = wire_address(sender.email).rpartition("@")[2]
    message_id = f"<loops.{outbox_id}@{domain}>"
    headers = [
        ("From", _mailbox(sender, "From")),
        *(
            (name, ",\r\n ".join(_mailbox(one, name) for one in those))
            for name, those in (("To", to), ("Cc", cc), ("Reply-To", reply_to))
            if those
        ),
        ("Subject", _text_header(message.subject, "Subject")),
        ("Date", format_datetime(created_at)),
        ("Message-ID", message_id),
        ("Auto-Submitted", "auto-generated"),
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in headers).encode("ascii")
    recipients = tuple(dict.fromkeys(wire_address(one.email) for one in (*to, *cc, *bcc)))
    return Mail(wire_address(sender.email), recipients, message_id, head + _body(message))


def _body(message: Message) -> bytes:
    """From its Content-Type on. An empty html is no part at all; html without text goes alone too."""
    part = EmailMessage(policy=_POLICY)
    if not message.html:
        part.set_content(_encodable(message.text))
    elif not message.text:
        part.set_content(_encodable(message.html), subtype="html")
    else:
        part.set_content(_encodable(message.text))
        part.add_alternative(_encodable(message.html), subtype="html")
    return part.as_bytes()


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, most: int = LONGEST_LINE) -> str:
    """A text as a header may hold it: encoded words are read first, since readers do so too, then whatever breaks a
    line or hides becomes a space. Marks that turn the direction of text go.

    It has `most` characters at most; what is longer ends in an ellipsis. It is cut before it is looked through, too:
    the time for that grows with the square of its length.
    """
    text = _BIDI.sub("", _cut(text, most))
    for _round in range(_MOST_DECODINGS):
        if "=?" not in text:
            break
        text = _BIDI.sub("", _decoded(text))
    text = text.replace("=?", "= ?")
    kept = "".join(" " if unicodedata.category(letter) in {"Cc", "Zl", "Zp", "Cs"} else letter for letter in text)
    return _cut(kept.strip(), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _decoded(text: str) -> str:
    # Encoded words are ASCII. Letters beyond it are kept from the library, which would make escapes of them.
    return _ASCII.sub(lambda found: _words(found[0]) if "=?" in found[0] else found[0], text)


def _words(text: str) -> str:
    try:
        return str(make_header(decode_header(text)))
    except (MessageError, LookupError, ValueError):  # words that only look encoded
        return text


def _text_header(text: str, name: str) -> str:
    line = one_line(text)
    if line.isascii() and len(line) + len(name) + 2 <= _HEADER_WIDTH:
        return line
    # Encoded as a whole: words of one header that are joined lose nothing, spaces between them included.
    return Header(line, "utf-8", _HEADER_WIDTH, name).encode(linesep="\r\n")


def _mailbox(address: Address, name: str) -> str:
    wire = wire_address(address.email)
    shown = one_line(address.name)
    if not shown:
        return wire
    if shown.isascii() and len(shown) + len(wire) + len(name) + 7 <= _HEADER_WIDTH:
        return formataddr((shown, wire))
    return f"{Header(shown, 'utf-8', _HEADER_WIDTH, name).encode(linesep=chr(13) + chr(10))}\r\n <{wire}>"


def wire_address(address: str) -> str:
    """An address as servers take it, its domain in ASCII. ValueError says what is wrong with one that cannot be."""
    local, _at, domain = address.rpartition("@")
    if not _ADDRESS.fullmatch(address):
        raise ValueError(f"{address[:100]!r} is no email address")
    if not local.isascii():
        raise ValueError(f"{address[:100]!r} has letters outside ASCII before its @, which few servers take")
    try:
        wire = domain.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise ValueError(f"{address[:100]!r} has no domain that exists") from error
    # Full-width marks have become plain ones by now, which end an address or begin another.
    if not _DOMAIN.fullmatch(wire):
        raise ValueError(f"{address[:100]!r} has a domain with marks that no domain has")
    return f"{local}@{wire}"
