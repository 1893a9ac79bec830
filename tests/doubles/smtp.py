"""A mail server on loopback, by aiosmtpd: with or without TLS and a password, and as unkind as a test asks."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

USER, PASSWORD = "ada", "engine-no-1"


@dataclass
class SmtpDouble:
    """What it does, and the mails it took. `refuses` answers a recipient; `data_answer` what DATA gets."""

    refuses: Mapping[str, str] = field(default_factory=dict)
    sender_answer: str = ""
    data_answer: str = ""
    silent_after_data: bool = False
    closes_after_data: bool = False
    envelopes: list[Envelope] = field(default_factory=list)
    signed_in: list[tuple[str, bool]] = field(default_factory=list)
    port: int = 0

    @property
    def mails(self) -> list[EmailMessage]:
        """The mails as a reader's program reads them."""
        read = [message_from_bytes(self.raw(number), policy=default) for number in range(len(self.envelopes))]
        return [mail for mail in read if isinstance(mail, EmailMessage)]

    def raw(self, number: int = -1) -> bytes:
        """A mail as it came over the wire."""
        content = self.envelopes[number].original_content
        assert content is not None
        return content

    async def handle_MAIL(  # noqa: N802 - aiosmtpd calls it so
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.sender_answer:
            return self.sender_answer
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(  # noqa: N802
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.data_answer:
            return self.data_answer
        self.envelopes.append(envelope)
        if self.closes_after_data:
            assert server.transport is not None
            server.transport.close()
        if self.silent_after_data:
            await asyncio.sleep(3)
        return "250 taken as 4711"

    def authenticate(
        self, _server: SMTP, session: Session, _envelope: Envelope, _mechanism: str, login: Any
    ) -> AuthResult:
        assert isinstance(login, LoginPassword)
        right = (login.login, login.password) == (USER.encode(), PASSWORD.encode())
        self.signed_in.append((login.login.decode(), session.ssl is not None))
        return AuthResult(success=right, handled=False)


@asynccontextmanager
async def smtp(
    folder: Path, *, security: str = "starttls", password: bool = True, name: str = "localhost", **settings: Any
) -> AsyncIterator[tuple[SmtpDouble, ssl.SSLContext]]:
    """A server, and a context that trusts it. `security` none offers no STARTTLS, and lets sign in in the clear."""
    double = SmtpDouble(**settings)
    server_tls, client_tls = _contexts(folder, name)

    sessions: list[SMTP] = []

    def make() -> SMTP:
        made = SMTP(
            double,
            hostname="mail.example.org",
            tls_context=server_tls if security == "starttls" else None,
            auth_require_tls=security == "starttls",
            authenticator=double.authenticate if password else None,
            loop=asyncio.get_running_loop(),
        )
        sessions.append(made)
        return made

    tls = server_tls if security == "tls" else None
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, ssl=tls)
    double.port = server.sockets[0].getsockname()[1]
    try:
        yield double, client_tls
    finally:
        server.close()
        for session in sessions:
            if session.transport is not None:
                session.transport.close()
        await asyncio.sleep(0.01)


def _contexts(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    names: list[x509.GeneralName] = [x509.DNSName(name)]
    if name == "localhost":
        names.append(x509.IPAddress(ip_address("127.0.0.1")))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM)
    file = folder / f"{name}.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + pem)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cadata=pem.decode())
