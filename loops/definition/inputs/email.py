"""template-email: an email in plain text, HTML or both, its parts in Liquid."""

import re
from collections.abc import Mapping
from email.utils import getaddresses
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, JsonValue

from loops.definition.findings import Findings, join, listed, shown
from loops.definition.inputs.base import ConnectionId, Inputs, Templated, Text
from loops.definition.schema.base import Shape, refused

_TEMPLATE = re.compile(r"\{[{%]")
_LIST = "as ada@example.com, or Ada <ada@example.com>, Bo <bo@example.com>"
_ADDRESS = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")


def _address(text: str) -> str:
    if not _TEMPLATE.search(text) and not _ADDRESS.fullmatch(text):
        raise refused(f'"{shown(text)}" is no email address', "write one address, such as ada@example.com")
    return text


def _one_line(text: str) -> str:
    if len(f"{text}.".splitlines()) > 1:
        raise refused("must be one line", "put further lines into the text")
    return text


def _addresses(text: str) -> str:
    if _TEMPLATE.search(_one_line(text)):
        return text
    for _name, address in getaddresses([text]) if text.strip() else ():
        if not _ADDRESS.fullmatch(address):
            raise refused(f'"{shown(text)}" is no list of email addresses', _LIST)
    return text


Line = Annotated[str, AfterValidator(_one_line)]
Address = Annotated[Text, AfterValidator(_address)]
Addresses = Annotated[str, AfterValidator(_addresses)]


class Sender(Shape):
    """The connection that sends, and the address and name it shows if they are not the connection's own."""

    not_here: ClassVar = {"integrationIds": "several senders are not supported; name one as integrationId"}

    integration_id: ConnectionId = Field(alias="integrationId")
    name: Line = ""
    email: Address | None = None


class Recipient(Shape):
    """Who gets the email."""

    email: Address
    name: Line = ""


class Mail(Shape):
    """The message. `cc`, `bcc` and `replyTo` are addresses with commas between them. An empty `html` sends plain text;
    `preheader` is what a list of mails shows of it beside the subject; `design` is an editor's own state and sends
    nothing."""

    not_here: ClassVar = {"reply_to": "is not supported; write replyTo"}

    sender: Sender | None = Field(None, alias="from")
    to: Recipient | None = None
    cc: Addresses | None = None
    bcc: Addresses | None = None
    reply_to: Addresses | None = Field(None, alias="replyTo")
    subject: Line | None = None
    preheader: str | None = None
    text: str | None = None
    html: str | None = None
    design: JsonValue = None


class EmailInputs(Inputs):
    """One input, `email`, that holds the whole message."""

    action_type: ClassVar = "function_email"

    email: Annotated[Mail, Templated("liquid", html=frozenset({"html"}), literal=frozenset({"from", "design"}))]

    @classmethod
    def lacking(cls, values: Mapping[str, JsonValue], path: str, findings: Findings) -> None:
        super().lacking(values, path, findings)
        mail = values.get("email")
        if not isinstance(mail, dict):
            return
        parts = [part for part in ("from", "to", "subject") if not mail.get(part)]
        if not mail.get("text") and not mail.get("html"):
            parts.append("text or html")
        if parts:
            findings.refuse(join(path, "email"), f"the email lacks {listed(parts)}")
        if mail.get("preheader") and not mail.get("html"):
            findings.warn(join(path, "email", "value", "preheader"), "has no effect without html", "leave it out")
