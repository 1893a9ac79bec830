"""The egress proxy: the one way out of a sandbox, to the hosts that are on its list.

It speaks what clients speak to an HTTP proxy: CONNECT for TLS, and requests with a whole address for plain HTTP. It
decides by host and port, resolves the name itself, refuses private addresses, connects to the address that it has
checked, and logs each decision. What goes through a CONNECT is not read.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from loops.addresses import AllowedHosts, checked
from loops.errors import ExternalError
from loops.tasks.workspace.inside import join

log = logging.getLogger("loops.tasks.egress")

CONNECT_SECONDS = 10.0
HEAD_SECONDS = 30.0
_HOP = ("connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "upgrade")
"""Headers that are between the client and us."""
_BROKEN = re.compile(r"[\0\r\n]")
"""What another server may take for the end of a line: a second request, or another host, would begin there."""
_VERSION = re.compile(r"HTTP/1\.[01]")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a client wants: where to, and what the server there is sent first. `tunnel` is set for CONNECT."""

    host: str
    port: int
    head: bytes
    tunnel: bool


class _Refused(Exception):
    """A request that goes nowhere: `status` and words for the client."""

    def __init__(self, status: str, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


@dataclass(frozen=True, slots=True)
class Egress:
    """Makes proxies for lists of hosts. `allowed` are private hosts that may be reached all the same."""

    allowed: AllowedHosts

    def __call__(self, hosts: Sequence[str]) -> "_Proxy":
        """The proxy of one sandbox that may reach these `host:port`."""
        return _Proxy(frozenset(_normal(one) for one in hosts), self.allowed)


@dataclass(frozen=True, slots=True)
class _Proxy:
    hosts: frozenset[str]
    allowed: AllowedHosts

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection; it carries one request."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                asked = _read(await reader.readuntil(b"\r\n\r\n"))
            there_reader, there_writer = await self._connect(asked)
        except _Refused as refused:
            await _answer(writer, refused)
            return
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await _answer(writer, _Refused("400 Bad Request", "no request was read"))
            return
        try:
            if asked.tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                there_writer.write(asked.head)
            await join(reader, writer, there_reader, there_writer)
        finally:
            there_writer.close()

    async def _connect(self, asked: _Asked) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = f"{asked.host}:{asked.port}"
        if _normal(where) not in self.hosts:
            log.warning("egress refused: not on the list", extra={"host": where})
            raise _Refused("403 Forbidden", f"{where} is not on the list of this sandbox")
        try:
            addresses = await checked(asked.host, asked.port, self.allowed)
        except ExternalError as error:
            log.warning("egress refused: %s", error.message, extra={"host": where})
            raise _Refused("403 Forbidden", error.message) from None
        for address in addresses:
            with contextlib.suppress(OSError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    opened = await asyncio.open_connection(str(address), asked.port)
                log.info("egress allowed", extra={"host": where, "address": str(address)})
                return opened
        log.warning("egress failed: no connection", extra={"host": where})
        raise _Refused("502 Bad Gateway", f"{where} does not answer")


async def _answer(writer: asyncio.StreamWriter, refused: _Refused) -> None:
    body = f"{refused.words}\n".encode()
    writer.write(
        f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n".encode()
        + body
    )
    with contextlib.suppress(OSError):
        await writer.drain()


def _normal(where: str) -> str:
    host, _, port = where.rpartition(":")
    return f"{host.strip('[]').lower().rstrip('.')}:{port}"


def _read(head: bytes) -> _Asked:
    """The request. Raises _Refused."""
    try:
        line, *headers = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        if _BROKEN.search("".join((line, *headers))):
            raise _Refused("400 Bad Request", "a line of the request holds what no line may")
        method, target, version = line.split(" ")
        if not method.isalpha() or _VERSION.fullmatch(version) is None or not all(map(_HEADER.match, headers)):
            raise _Refused("400 Bad Request", "a line of the request cannot be read")
        if method == "CONNECT":
            parts = urlsplit(f"//{target}")
            if parts.hostname is None or parts.port is None:
                raise _Refused("400 Bad Request", "CONNECT names a host and a port")
            return _Asked(parts.hostname, parts.port, b"", tunnel=True)
        parts = urlsplit(target)
        if parts.scheme != "http" or parts.hostname is None or parts.username is not None:
            raise _Refused("400 Bad Request", "this is a proxy: it takes CONNECT and http:// addresses")
        port = parts.port or 80
    except ValueError:
        raise _Refused("400 Bad Request", "the request cannot be read") from None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    # One request a connection, and the Host that was judged: a second one, or another name, would not have been.
    kept = [one for one in headers if one.partition(":")[0].strip().lower() not in (*_HOP, "host")]
    host = parts.hostname if port == 80 else f"{parts.hostname}:{port}"
    lines = [f"{method} {path} {version}", f"Host: {host}", *kept, "Connection: close", "", ""]
    return _Asked(parts.hostname, port, "\r\n".join(lines).encode("latin-1"), tunnel=False)
