"""Email through aiosmtplib: over TLS as the connection says, never without, and each mail once.

Only a lost connection or silence after DATA leaves open whether a mail was taken; before it nothing was.
"""

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import aiosmtplib

from loops.threads import on_own_thread
from notify.message import (
    Address,
    EmailTarget,
    Message,
    Outcome,
    Outgoing,
    Refused,
    Retry,
    Sent,
    Settlement,
    Uncertain,
    Unsettled,
)
from notify.mime import Mail, compose
from notify.rendering import rendered

Security = Literal["starttls", "tls", "none"]
SECONDS = 10.0
_QUIT_SECONDS = 2.0
_FOR_GOOD = 500
_TOO_LARGE = 552
_AUTH_CODES = frozenset({530, 534, 535, 538})


@dataclass(frozen=True, slots=True)
class Server:
    """A mail server. `security`: starttls upgrades a plain connection, tls begins with TLS, none stays plain and never
    signs in."""

    host: str
    port: int
    security: Security = "starttls"
    username: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Server({self.host}:{self.port}, {self.security})"


class _StoppedError(Exception):
    """Sending ended before the mail was handed over."""

    def __init__(self, outcome: Refused | Retry) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class EmailNotifier:
    """One mail server and the address that mails come from. `tls` takes the place of the system's trust."""

    def __init__(
        self, server: Server, sender: Address, *, tls: ssl.SSLContext | None = None, seconds: float = SECONDS
    ) -> None:
        self._server = server
        self._sender = sender
        self._tls = tls
        self._seconds = seconds

    async def parts(self, message: Message) -> int | Refused:  # noqa: ARG002 - a mail is never parted
        """See Notifier.parts."""
        return 1

    async def send(self, outgoing: Outgoing) -> Outcome:
        """See Notifier.send. Some recipients refused is a success that names them."""
        target = outgoing.message.target
        if not isinstance(target, EmailTarget):
            raise TypeError(f"a mail server cannot send to {target!r}")
        unsafe = self._unsafe()
        if unsafe is not None:
            return unsafe
        mail = await rendered(lambda: self._mail(outgoing, target), outgoing.message.size)
        if isinstance(mail, Refused):
            return mail
        client = await self._client(mail.sender)
        try:
            await self._connect(client)
            return await self._hand_over(client, mail)
        except _StoppedError as stopped:
            return stopped.outcome
        finally:
            client.close()

    async def check(self) -> Refused | Retry | None:
        """Reach the server, secure the way and sign in as for a mail, and leave again: why no mail could be sent; None
        where nothing speaks against it."""
        unsafe = self._unsafe()
        if unsafe is not None:
            return unsafe
        client = await self._client(self._sender.email)
        try:
            await self._connect(client)
            await _leave(client)
        except _StoppedError as stopped:
            return stopped.outcome
        finally:
            client.close()
        return None

    def _unsafe(self) -> Refused | None:
        if self._server.security != "none" or not self._server.username:
            return None
        mend = "set security to starttls or tls, or take username and password away"
        return Refused("clear_password", "the password would travel in the clear", mend)

    async def settle(self, outgoing: Outgoing) -> Settlement:  # noqa: ARG002
        """See Notifier.settle: a mail server tells nobody what it took."""
        return Unsettled("whether the mail server took it cannot be found out")

    def _mail(self, outgoing: Outgoing, target: EmailTarget) -> Mail | Refused:
        try:
            mail = compose(
                outgoing.message,
                outgoing.id,
                outgoing.created_at,
                self._sent_by(target),
                target.to,
                cc=target.cc,
                bcc=target.bcc,
                reply_to=target.reply_to,
            )
        except ValueError as error:
            return Refused("address", str(error), "give the address as ada@example.org")
        return mail if mail.recipients else Refused("address", "the mail has no recipient", "give it one")

    def _sent_by(self, target: EmailTarget) -> Address:
        given = target.sender
        if given is None:
            return self._sender
        return Address(given.email or self._sender.email, given.name or self._sender.name)

    async def _client(self, sender: str) -> aiosmtplib.SMTP:
        server = self._server
        if self._tls is None and server.security != "none":
            self._tls = await on_own_thread(ssl.create_default_context)
        # The name is given: looking for this machine's own may take longer than all the rest.
        return aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            local_hostname=sender.rpartition("@")[2],
            timeout=self._seconds,
            use_tls=server.security == "tls",
            start_tls=server.security == "starttls",
            tls_context=self._tls,
        )

    async def _connect(self, client: aiosmtplib.SMTP) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await client.connect()
                if self._server.username:
                    await client.login(self._server.username, self._server.password)
        except aiosmtplib.SMTPResponseException as error:
            raise _StoppedError(_answered(error, self._place())) from error
        except TimeoutError as error:
            raise _StoppedError(Retry(f"{self._place()} does not answer within {self._seconds:g} seconds")) from error
        except (OSError, aiosmtplib.SMTPException) as error:
            raise _StoppedError(self._not_connected(error)) from error

    def _not_connected(self, error: Exception) -> Refused | Retry:
        found = error if isinstance(error, ssl.SSLError) else error.__cause__
        place = self._place()
        if isinstance(found, ssl.SSLCertVerificationError):
            reason = f"the certificate of {place} cannot be trusted: {found.verify_message}"
            return Refused(
                "certificate", reason, "give the host the name that its certificate is for, by a known issuer"
            )
        if isinstance(found, ssl.SSLError):
            mend = "set security to starttls (port 587 as a rule) or tls (port 465)"
            return Refused("tls", f"{place} does not speak TLS from the beginning: {found.reason or found}", mend)
        if isinstance(error, OSError):
            return Retry(f"{place} cannot be reached: {error}")
        if "STARTTLS" in str(error):
            mend = "set security to tls if the server begins with it, or to none if it has no TLS and no password"
            return Refused("starttls", f"{place} does not offer STARTTLS, and nothing is sent without", mend)
        mend = "check username and password, and how the server wants to be signed in to"
        return Refused("sign_in", f"{place} cannot be signed in to: {error}", mend)

    async def _hand_over(self, client: aiosmtplib.SMTP, mail: Mail) -> Outcome:
        missed = await self._envelope(client, mail)
        try:
            async with asyncio.timeout(self._seconds):
                await client.data(mail.content)
        except aiosmtplib.SMTPResponseException as error:
            return _answered(error, self._place())
        except (OSError, aiosmtplib.SMTPException) as error:  # a timeout is an OSError
            return Uncertain(f"{self._place()} was lost while it took the mail: {_told(error)}")
        await _leave(client)
        return Sent(mail.message_id, missed)

    async def _envelope(self, client: aiosmtplib.SMTP, mail: Mail) -> tuple[str, ...]:
        """Name sender and recipients; the recipients that were refused beside others."""
        refused: list[aiosmtplib.SMTPRecipientRefused] = []
        try:
            sized = client.supports_extension("size")
            await client.mail(mail.sender, options=[f"size={len(mail.content)}"] if sized else [])
            for recipient in mail.recipients:
                try:
                    await client.rcpt(recipient)
                except aiosmtplib.SMTPRecipientRefused as error:
                    refused.append(error)
        except aiosmtplib.SMTPResponseException as error:
            raise _StoppedError(_answered(error, self._place())) from error
        except (OSError, aiosmtplib.SMTPException) as error:
            raise _StoppedError(Retry(f"{self._place()} was lost before it took the mail: {_told(error)}")) from error
        missed = tuple(f"{one.recipient}: {one.code} {_line(one.message)}" for one in refused)
        if len(refused) == len(mail.recipients):
            raise _StoppedError(_nobody(refused, missed))
        return missed

    def _place(self) -> str:
        return f"the mail server {self._server.host}:{self._server.port}"


async def _leave(client: aiosmtplib.SMTP) -> None:
    """Say goodbye; the mail is taken, whatever comes of it."""
    with suppress(OSError, aiosmtplib.SMTPException):
        await client.quit(timeout=_QUIT_SECONDS)


def _nobody(refused: list[aiosmtplib.SMTPRecipientRefused], missed: tuple[str, ...]) -> Refused | Retry:
    """No recipient was taken: for good if that holds for every one."""
    reason = "no recipient was accepted: " + "; ".join(missed)
    if any(one.code < _FOR_GOOD for one in refused):
        return Retry(reason)
    return Refused("recipients", reason, "check the addresses, and that the server may send to them")


def _answered(error: aiosmtplib.SMTPResponseException, place: str) -> Refused | Retry:
    told = f"{place} answered {error.code} {_line(error.message)}"
    if error.code in _AUTH_CODES:
        return Refused("sign_in", told, "check username and password of the smtp connection")
    if error.code == _TOO_LARGE:
        return Refused("too_large", told, "shorten the mail")
    if isinstance(error, aiosmtplib.SMTPSenderRefused) and error.code >= _FOR_GOOD:
        return Refused("sender", told, "send from an address that this server lets you send from")
    if error.code >= _FOR_GOOD:
        return Refused("refused", told, "the server's own words say why")
    return Retry(told)


def _told(error: Exception) -> str:
    return _line(str(error)) or type(error).__name__


def _line(message: str) -> str:
    return " ".join(message.split())[:300]
