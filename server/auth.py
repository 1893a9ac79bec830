"""Tokens, roles and sessions as values: nothing here reads a request, a clock or the database."""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from loops.errors import NotAllowed, RequestError

Role: TypeAlias = Literal["viewer", "editor", "admin"]

ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most: each may do what those before it may."""

TOKEN_PREFIX = "loops_"  # noqa: S105 - what every token begins with, so that scanners can find a leaked one
SESSION_COOKIE = "loops_session"
SESSION_LIFETIME = timedelta(days=7)
SESSION_PURPOSE = "sessions"

_TOKEN = re.compile(r"loops_[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: a token of a project, with its role and name."""

    token_id: str
    project_id: str
    role: Role
    name: str


def new_token() -> tuple[str, str]:
    """A token with 256 bits of chance, to be shown once, and the digest that is stored in its place."""
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    return token, digest(token)


def digest(token: str) -> str:
    """SHA-256 in hex. A token is random, so a slow hash would add nothing but time."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def bearer_token(authorization: str | None) -> str | None:
    """The token of an Authorization header; None when there is none or it cannot be one of ours."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and _TOKEN.fullmatch(token) else None


def parse_role(text: str) -> Role:
    """The role of that name, else RequestError."""
    for role in ROLES:
        if text == role:
            return role
    raise RequestError(f"{text!r} is not a role", hint=f"one of {', '.join(ROLES)}", path="role")


def require(principal: Principal, role: Role) -> None:
    """NotAllowed unless the principal has at least this role."""
    if ROLES.index(principal.role) < ROLES.index(role):
        raise NotAllowed(
            f"this needs the role {role}, and token {principal.name!r} has {principal.role}",
            hint=f"an admin makes one with: loops token create --role {role}",
        )


def session_value(key: bytes, token_id: str, expires: datetime) -> str:
    """A cookie value that names a token until `expires` (aware), signed with `key`; it holds no secret."""
    payload = _encoded(f"{int(expires.timestamp())}:{token_id}".encode())
    return f"{payload}.{_signature(key, payload)}"


def read_session(key: bytes, value: str, now: datetime) -> str | None:
    """The token id of a session that we signed and that has not expired, else None.

    Whether the token still exists is for the caller to look up, each time: revoking it ends its sessions.
    """
    payload, _, signature = value.encode("utf-8", "replace").decode().partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(key, payload).encode()):
        return None
    expires, _, token_id = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)).decode().partition(":")
    return token_id if now.timestamp() < int(expires) else None


def same_origin(headers: Mapping[str, str], public_url: str, host: str) -> bool:
    """Whether a browser sent this form from a page of ours. `host` is the Host header.

    Browsers say so in Sec-Fetch-Site; over plain HTTP to another machine they leave it out, and Origin decides. A
    request with neither is refused: whoever is no browser has the API.
    """
    folded = {name.lower(): value for name, value in headers.items()}
    site = folded.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = folded.get("origin", "").lower()
    if not origin or origin == "null":
        return False
    return origin == public_url.lower().rstrip("/") or _network_location(origin) == host.lower()


def _network_location(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def _signature(key: bytes, payload: str) -> str:
    return _encoded(hmac.digest(key, b"loops session 1:" + payload.encode(), "sha256"))


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")
