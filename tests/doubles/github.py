"""A GitHub REST API on loopback: tokens and apps, permissions, hooks and their deliveries, and faults as asked for."""

import asyncio
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import jwt
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

TOKEN = "ghp_the-token-of-the-tests"
APP_ID = "7"
INSTALLATION = 31337

Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@cache
def private_key() -> str:
    """The app's key in PEM form."""
    return _key().private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


@cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


class GitHubDouble:
    """Permissions by (repository, login), both in lower case. `faults` are taken one a call of the permission API."""

    def __init__(self) -> None:
        self.permissions: dict[tuple[str, str], tuple[str, str]] = {}
        self.calls: Counter[str] = Counter()
        self.faults: list[Fault | None] = []
        self.always: Fault | None = None
        self.remaining: int | None = 4999
        self.moved: dict[str, str] = {}
        self.installed = {"acme/widgets": INSTALLATION}
        self.token_seconds = 3600.0
        self.tokens: set[str] = set()
        self.hooks: dict[str, list[dict[str, Any]]] = {}
        self.deliveries: list[dict[str, Any]] = []
        self.attempts: list[int] = []
        self.repositories: list[str] = []
        self.page = 100
        self.root = ""
        self.at_once = 0
        self.most_at_once = 0
        self.app_permissions = {"metadata": "read", "members": "read", "issues": "write"}
        self.app_events = ["issues", "member"]
        self.hook_url = ""
        self.scopes = ""
        self.attempt_fault: Fault | None = None

    @property
    def url(self) -> str:
        """What a connection has as its `api_base_url`."""
        return f"{self.root}/api/v3"

    def token_settings(self) -> dict[str, str]:
        """Settings of a connection with a personal token."""
        return {"token": TOKEN, "api_base_url": self.url}

    def app_settings(self) -> dict[str, str]:
        """Settings of a connection of the app."""
        return {"app_id": APP_ID, "private_key": private_key(), "api_base_url": self.url}

    def may(self, login: str, permission: str, role: str | None = None, repository: str = "acme/widgets") -> None:
        """Somebody has this permission; `role` is the finer word for it."""
        self.permissions[repository, login] = permission, role or permission

    def failed(self, number: int, guid: str, status: int = 502, ago: timedelta = timedelta(minutes=1)) -> None:
        """A delivery was tried; the newest stands first, as in GitHub's list."""
        at = (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
        entry = {"id": number, "guid": guid, "delivered_at": at, "redelivery": False, "status_code": status}
        self.deliveries.insert(0, {**entry, "status": "OK" if status < 300 else "failed", "event": "issues"})

    def routes(self) -> list[web.RouteDef]:
        """What it answers."""
        repos = "/api/v3/repos/{owner}/{name}"
        hooked = "/api/v3/repos/{owner}/{name}/hooks/{hook}"
        return [
            web.get("/api/v3/user", self.user),
            web.get("/api/v3/app", self.app),
            web.get("/api/v3/app/hook/config", self.app_hook),
            web.get("/api/v3/app/installations", self.installations),
            web.get("/api/v3/installation/repositories", self.listed_repositories),
            web.get("/api/v3/user/repos", self.listed_repositories),
            web.get("/api/v3/app/hook/deliveries", self.listed),
            web.post("/api/v3/app/hook/deliveries/{id}/attempts", self.attempt),
            web.post("/api/v3/app/installations/{id}/access_tokens", self.access_token),
            web.get(f"{repos}/installation", self.installation),
            web.get(f"{repos}/hooks", self.repository_hooks),
            web.get(f"{hooked}/deliveries", self.listed),
            web.post(f"{hooked}/deliveries/{{id}}/attempts", self.attempt),
            web.get(f"{repos}/collaborators/{{login}}/permission", self.permission),
            web.get("/api/v3/repositories/{number}/collaborators/{login}/permission", self.moved_permission),
        ]

    async def permission(self, request: web.Request) -> web.StreamResponse:
        repository = f"{request.match_info['owner']}/{request.match_info['name']}".lower()
        if repository in self.moved:
            self.calls["redirect"] += 1
            path = f"/api/v3/repositories/9/collaborators/{request.match_info['login']}/permission"
            status = 301 if self.moved[repository] == "301" else 307
            return web.Response(status=status, headers={"Location": f"{self.root}{path}"})
        return await self._permission(request, repository)

    async def moved_permission(self, request: web.Request) -> web.StreamResponse:
        return await self._permission(request, "acme/widgets")

    async def _permission(self, request: web.Request, repository: str) -> web.StreamResponse:
        self.calls["permission"] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            refusal = self._refusal(request, as_app=False)
            if refusal is not None:
                return refusal
            fault = self.faults.pop(0) if self.faults else self.always
            answer = await fault(request) if fault is not None else None
            if answer is not None:
                return answer
            found = self.permissions.get((repository, request.match_info["login"].lower()))
            if found is None:
                return self._json({"message": "Not Found"}, 404)
            return self._json({"permission": found[0], "role_name": found[1], "user": {}})
        finally:
            self.at_once -= 1

    async def access_token(self, request: web.Request) -> web.Response:
        self.calls["token"] += 1
        refusal = self._refusal(request, as_app=True)
        if refusal is not None:
            return refusal
        if request.match_info["id"] != str(INSTALLATION):
            return self._json({"message": "Not Found"}, 404)
        token = f"ghs_{self.calls['token']}"
        self.tokens.add(token)
        until = datetime.now(UTC) + timedelta(seconds=self.token_seconds)
        return self._json({"token": token, "expires_at": until.strftime("%Y-%m-%dT%H:%M:%SZ")}, 201)

    async def installation(self, request: web.Request) -> web.Response:
        self.calls["installation"] += 1
        refusal = self._refusal(request, as_app=True)
        if refusal is not None:
            return refusal
        number = self.installed.get(f"{request.match_info['owner']}/{request.match_info['name']}".lower())
        return self._json({"message": "Not Found"}, 404) if number is None else self._json({"id": number})

    async def installations(self, request: web.Request) -> web.Response:
        return self._refusal(request, as_app=True) or self._json([{"id": INSTALLATION}])

    async def listed_repositories(self, request: web.Request) -> web.Response:
        self.calls["repositories"] += 1
        refusal = self._refusal(request, as_app=False)
        if refusal is not None:
            return refusal
        size = min(self.page, int(request.query["per_page"]))
        page = int(request.query["page"])
        shown = self.repositories[(page - 1) * size : page * size]
        listed = [
            {"id": zlib.crc32(name.encode()), "full_name": name, "private": True, "permissions": {"push": True}}
            for name in shown
        ]
        of_user = request.path.endswith("/user/repos")
        answer = self._json(listed if of_user else {"total_count": len(self.repositories), "repositories": listed})
        if len(self.repositories) > page * size:
            answer.headers["Link"] = f'<{self.root}{request.path}?page={page + 1}>; rel="next", <x>; rel="last"'
        return answer

    async def user(self, request: web.Request) -> web.Response:
        return self._refusal(request, as_app=False) or self._json({"login": "loops-bot", "type": "User"})

    async def app(self, request: web.Request) -> web.Response:
        body = {"slug": "my-loops", "permissions": self.app_permissions, "events": self.app_events}
        return self._refusal(request, as_app=True) or self._json(body)

    async def app_hook(self, request: web.Request) -> web.Response:
        return self._refusal(request, as_app=True) or self._json({"url": self.hook_url, "content_type": "json"})

    async def repository_hooks(self, request: web.Request) -> web.Response:
        self.calls["hooks"] += 1
        name = f"{request.match_info['owner']}/{request.match_info['name']}".lower()
        if name not in self.hooks:
            return self._json({"message": "Not Found"}, 404)
        return self._refusal(request, as_app=False) or self._json(self.hooks[name])

    async def listed(self, request: web.Request) -> web.Response:
        self.calls["list"] += 1
        refusal = self._refusal(request, as_app="hook" not in request.match_info)
        if refusal is not None:
            return refusal
        start = int(request.query.get("cursor") or 0)
        answer = self._json(self.deliveries[start : start + self.page])
        if len(self.deliveries) > start + self.page:
            answer.headers["Link"] = f'<{self.root}{request.path}?cursor={start + self.page}>; rel="next"'
        return answer

    async def attempt(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request, as_app="hook" not in request.match_info)
        if refusal is not None:
            return refusal
        fault = None if self.attempt_fault is None else await self.attempt_fault(request)
        if fault is not None:
            return fault
        self.attempts.append(int(request.match_info["id"]))
        return self._json({}, 202)

    def _refusal(self, request: web.Request, *, as_app: bool) -> web.Response | None:
        scheme, _, credential = request.headers.get("Authorization", "").partition(" ")
        if as_app:
            return None if scheme.lower() == "bearer" and _signed(credential) else self._unauthorized()
        return None if credential in {TOKEN, *self.tokens} else self._unauthorized()

    def _unauthorized(self) -> web.Response:
        return self._json({"message": "Bad credentials"}, 401)

    def _json(self, body: Any, status: int = 200) -> web.Response:
        answer = web.json_response(body, status=status)
        if self.remaining is not None:
            answer.headers["X-OAuth-Scopes"] = self.scopes
            answer.headers["X-RateLimit-Limit"] = "5000"
            answer.headers["X-RateLimit-Remaining"] = str(self.remaining)
            answer.headers["X-RateLimit-Reset"] = str(int(time.time()) + 1800)
        return answer


def _signed(token: str) -> bool:
    public = _key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    try:
        return bool(jwt.decode(token, public, algorithms=["RS256"])["iss"] == APP_ID)
    except jwt.PyJWTError:
        return False


def says(status: int, body: Any = None, **headers: str) -> Fault:
    """Answers with this instead."""

    async def fault(_request: web.Request) -> web.StreamResponse:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, str):
            return web.Response(status=status, text=body, headers=sent)
        return web.json_response(body or {}, status=status, headers=sent)

    return fault


def sleeps(seconds: float) -> Fault:
    """Takes its time, then answers."""

    async def fault(_request: web.Request) -> None:
        await asyncio.sleep(seconds)

    return fault


async def hangs_up(request: web.Request) -> web.StreamResponse:
    """Drops the connection."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@asynccontextmanager
async def github() -> AsyncIterator[GitHubDouble]:
    """On loopback, for as long as it is used."""
    double = GitHubDouble()
    application = web.Application()
    application.add_routes(double.routes())
    async with TestServer(application) as server:
        double.root = str(server.make_url("/")).rstrip("/")
        yield double
