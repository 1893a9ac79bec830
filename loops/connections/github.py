"""Calls of GitHub's REST API with a connection's credentials: as the app, as one of its installations, or by token.

PyGithub does the signing, the tokens and the sockets. What it does unasked is switched off, since each of it would
hold up whoever waits for an answer: it pauses between requests, and on a used-up rate limit it sleeps until that
begins anew. It is synchronous, so calls run on threads of their own. It takes a redirected write for done, so the
status of every answer is looked at here.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import requests
from github import Auth, Github, GithubIntegration
from github.GithubException import GithubException
from github.Requester import Requester
from jwt.exceptions import PyJWTError

from loops.connections.github_answer import Answer, access_of, read_answer, refused
from loops.connections.secrets import SecretBox
from loops.errors import ExternalError, StoreError, Unreached
from loops.event import JsonValue
from loops.store.connections import ConnectionRow

log = logging.getLogger("loops.github")

T = TypeVar("T")

GITHUB_API = "https://api.github.com"
SECONDS = 2.0
"""That one call may take, with the token that it may need first."""
THREADS = 4
LEAST_REMAINING = 500
"""Below as many calls left, nothing more is asked for: what is left is for runs."""
_REDIRECTS = frozenset({301, 302, 307, 308})
_MOST_REDIRECTS = 3
# What PyGithub and the libraries below it raise for answers that are none of GitHub's.
_NONSENSE = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def api_of(config: Mapping[str, Any]) -> str:
    """Where the API is that a connection's credentials are for."""
    return str(config.get("api_base_url") or GITHUB_API)


def can_ask(secrets: Mapping[str, object]) -> bool:
    """Whether a connection has credentials for the API, beside the secret of its hook."""
    return bool(secrets.get("token") or (secrets.get("app_id") and secrets.get("private_key")))


@dataclass(frozen=True, slots=True)
class Permission:
    """What somebody may do in a repository: "write" or "read", and GitHub's own word for it."""

    access: str
    role: str
    remaining: int | None


class _Way:
    """One way to be known to GitHub: what signs the requests, and what is left of its rate limit.

    A requester of PyGithub's is for one thread at a time, so each call takes one and gives it back.
    """

    def __init__(self, open_github: Callable[[], Github], renew: Callable[[], str] = lambda: "") -> None:
        self._open_github = open_github
        self._renew = renew
        self._renewing = threading.Lock()
        self._free: deque[tuple[Github, Requester]] = deque()
        self._closed = False
        self.limit: tuple[int, float] | None = None

    def token(self) -> str:
        """The token of an installation, renewed where it is old. Blocks; raises what PyGithub raises."""
        with self._renewing:  # one thread renews a token, the others find it renewed
            return self._renew()

    def ask(self, verb: str, path: str, body: Mapping[str, JsonValue] | None) -> Answer:
        """Blocks. Raises what PyGithub raises."""
        self.token()
        try:
            github, requester = self._free.pop()
        except IndexError:
            github = self._open_github()
            requester = github.requester
        try:
            status, headers, text = requester.requestJson(verb, path, input=None if body is None else dict(body))
        finally:
            self._free.append((github, requester))
            if self._closed:
                self.close()
        answer = read_answer(status, headers, text)
        if answer.remaining is not None and answer.resets_at is not None:
            self.limit = answer.remaining, answer.resets_at
        return answer

    def close(self) -> None:
        """Close what is not in use now, and the rest once it is given back."""
        self._closed = True
        while self._free:
            self._free.pop()[0].close()


class GitHubClient:
    """Calls for one connection; get it from GitHubClients.

    Every call raises ExternalError (Unreached where nothing answers), whose hint says what mends it.
    """

    def __init__(
        self, base_url: str, secrets: Mapping[str, str], threads: ThreadPoolExecutor, slots: asyncio.Semaphore
    ) -> None:
        self._base_url = base_url
        self._token = secrets.get("token", "")
        self._app = None if self._token else Auth.AppAuth(secrets["app_id"], secrets["private_key"])
        self._threads = threads
        self._slots = slots
        self._lock = threading.Lock()
        self._ways: dict[int | None, _Way] = {}
        self._installations: dict[str, int] = {}

    @property
    def is_app(self) -> bool:
        """Whether the connection is a GitHub App's."""
        return self._app is not None

    async def permission(self, repository: str, login: str, installation: int | None = None) -> Permission:
        """What a user may do in `owner/name`. Asks nothing while fewer than LEAST_REMAINING calls are left."""
        path = f"/repos/{quote(repository)}/collaborators/{quote(login, safe='')}/permission"
        answer = await self._within(partial(self._permission, path, repository, installation))
        found = access_of(answer)
        if found is None:
            raise refused("GET permission", Answer(answer.status, answer.headers, None))
        access, role = found
        return Permission(access, role, answer.remaining)

    async def call(
        self,
        verb: str,
        path: str,
        *,
        body: Mapping[str, JsonValue] | None = None,
        repository: str | None = None,
        installation: int | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """What GitHub answers, with success. By token, or as the app itself; about a `repository` as the app's
        installation on it, or as the `installation` that is named."""

        def work() -> Answer:
            of_app = repository is None and installation is None
            way = self._own_way() if of_app else self._way(repository or "", installation)
            return _checked(f"{verb} {_bare(path)}", self._followed(way, verb, path, body))

        return await self._within(work, seconds)

    async def git_token(self, repository: str) -> str:
        """What lets git into a repository: the token, or that of the app's installation on it, good for most of an
        hour."""
        return await self._within(lambda: self._token or self._way(repository, None).token(), 5 * SECONDS)

    def remaining(self, installation: int | None = None) -> int | None:
        """The calls that were left to the token, the app itself or an installation when it last asked; None where
        nothing is known, or the limit has begun anew since."""
        way = self._ways.get(installation)
        return None if way is None else _left(way)

    def close(self) -> None:
        """Close what is open and not in use."""
        with self._lock:
            ways, self._ways = [*self._ways.values()], {}
        for way in ways:
            way.close()

    async def _within(self, work: Callable[[], T], seconds: float | None = None) -> T:
        """Run on one of the threads, in time. Whoever waits for a free one has not begun yet."""
        seconds = SECONDS if seconds is None else seconds
        async with self._slots:
            try:
                async with asyncio.timeout(seconds):
                    return await asyncio.get_running_loop().run_in_executor(self._threads, partial(_told, work))
            except TimeoutError as error:
                told = f"no answer within {seconds:g} seconds"
                raise Unreached("GitHub", "a call", told, sent=True) from error

    def _permission(self, path: str, repository: str, installation: int | None) -> Answer:
        way = self._way(repository, installation)
        left = _left(way)
        if left is not None and left < LEAST_REMAINING:
            raise spared(left)
        answer = _checked("GET permission", self._followed(way, "GET", path))
        if answer.remaining is not None and answer.remaining < LEAST_REMAINING:
            raise spared(answer.remaining)
        return answer

    def _followed(self, way: _Way, verb: str, path: str, body: Mapping[str, JsonValue] | None = None) -> Answer:
        """The answer, behind redirections on the same host: a renamed repository answers with one. PyGithub follows
        some of them, none with a write."""
        answer = way.ask(verb, path, body)
        for _ in range(_MOST_REDIRECTS):
            if answer.status not in _REDIRECTS:
                break
            leads = urljoin(self._base_url, answer.headers.get("location", ""))
            if urlsplit(leads)[:2] != urlsplit(self._base_url)[:2]:
                break
            answer = way.ask(verb, leads, body)
        if answer.status == 401:
            self._forget(way)  # an installation's token may have been taken back before its time
        return answer

    def _own_way(self) -> _Way:
        with self._lock:
            if None not in self._ways:
                auth = Auth.Token(self._token) if self._app is None else self._app
                self._ways[None] = _Way(lambda: Github(auth=auth, **self._options()))
            return self._ways[None]

    def _way(self, repository: str, installation: int | None) -> _Way:
        if self._app is None:
            return self._own_way()
        number = installation or self._installation_on(repository)
        with self._lock:
            if number not in self._ways:
                self._ways[number] = self._installed(self._app, number)
            return self._ways[number]

    def _installed(self, app: Auth.AppAuth, number: int) -> _Way:
        """As an installation: PyGithub gets its token at the first use, and again before it runs out."""
        integration = GithubIntegration(auth=app, **self._options())
        auth = app.get_installation_auth(number, requester=integration.requester)
        return _Way(lambda: Github(auth=auth, **self._options()), renew=lambda: auth.token)

    def _installation_on(self, repository: str) -> int:
        """The app's installation on a repository, for deliveries that name none: asked for once."""
        found = self._installations.get(repository)
        if found is None:
            path = f"/repos/{quote(repository)}/installation"
            answer = _checked(f"GET {path}", self._followed(self._own_way(), "GET", path))
            number = answer.body.get("id") if isinstance(answer.body, dict) else None
            if not isinstance(number, int):
                raise refused(f"GET {path}", Answer(answer.status, answer.headers, None))
            found = self._installations[repository] = number
        return found

    def _forget(self, way: _Way) -> None:
        with self._lock:
            self._ways = {number: one for number, one in self._ways.items() if one is not way}
            self._installations.clear()

    def _options(self) -> dict[str, Any]:
        return {
            "base_url": self._base_url,
            "timeout": max(1, int(SECONDS)),
            "user_agent": "loops",
            "per_page": 100,
            "retry": None,
            "seconds_between_requests": None,
            "seconds_between_writes": None,
            "lazy": True,
        }


class GitHubClients:
    """The clients of a process, each made once and made anew when its connection changes. They share four threads."""

    def __init__(self, box: SecretBox, opened: Callable[[Iterable[str]], None] = lambda _secrets: None) -> None:
        """`opened` is told the secrets of every connection that is opened, so that no log shows them."""
        self._box = box
        self._opened = opened
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="loops-github")
        self._slots = asyncio.Semaphore(THREADS)
        self._lock = threading.Lock()
        self._made: dict[int, tuple[str, str, GitHubClient | None]] = {}

    def of(self, row: ConnectionRow) -> GitHubClient | None:
        """The client of a stored GitHub connection; None where it has no credentials, or cannot be opened. May be
        called on any thread."""
        base_url = api_of(row.config)
        with self._lock:
            known = self._made.get(row.id)
            if known is not None and known[:2] == (row.secrets, base_url):
                return known[2]
            client = self._open(row, base_url)
            self._made[row.id] = row.secrets, base_url, client
        if known is not None and known[2] is not None:
            known[2].close()
        return client

    def close(self) -> None:
        """Calls under way end by themselves within seconds; nobody waits for them."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for _, _, client in self._made.values():
            if client is not None:
                client.close()

    def _open(self, row: ConnectionRow, base_url: str) -> GitHubClient | None:
        try:
            secrets = {name: str(value) for name, value in self._box.open(row.secrets).items()}
        except StoreError as error:
            log.warning("connection cannot be opened", extra={"connection": row.id, "reason": error.message})
            return None
        self._opened(secrets.values())
        return GitHubClient(base_url, secrets, self._threads, self._slots) if can_ask(secrets) else None


def _told(work: Callable[[], T]) -> T:
    """The work, with what the libraries raise put into words of ours."""
    try:
        return work()
    except GithubException as error:
        # Only getting an installation's token raises it.
        headers = {str(name): str(value) for name, value in (error.headers or {}).items()}
        answer = Answer(error.status, headers, error.data if isinstance(error.data, dict) else None)
        raise refused("getting the installation's token", answer) from error
    except requests.RequestException as error:
        sent = not isinstance(error, requests.ConnectTimeout)
        raise Unreached("GitHub", "a call", type(error).__name__, sent=sent) from error
    except PyJWTError as error:
        hint = "put the app's private key, as it was downloaded, into the connection"
        raise ExternalError("GitHub", f"the app's key signs nothing: {error}", hint=hint) from error
    except _NONSENSE as error:
        told = f"what answers is no API of GitHub's ({type(error).__name__})"
        raise ExternalError("GitHub", told, hint="check api_base_url") from error


def _checked(call: str, answer: Answer) -> Answer:
    if not answer.ok:
        raise refused(call, answer)
    return answer


def _left(way: _Way) -> int | None:
    """The calls that are left by what is known."""
    if way.limit is None or way.limit[1] <= time.time():
        return None
    return way.limit[0]


def spared(left: int) -> ExternalError:
    """What is told where the last calls are kept for runs."""
    told = f"only {left} calls are left of the rate limit, and the last {LEAST_REMAINING} are for runs"
    return ExternalError("GitHub", told, status=429, hint="wait until it begins anew, within the hour")


def _bare(path: str) -> str:
    return path.partition("?")[0]
