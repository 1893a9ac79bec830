"""What GitHub's REST API answers, read without the library that asked."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from loops.errors import ExternalError
from loops.event import JsonValue

_OK = range(200, 300)
_LONGEST_WAIT = 3600.0
_WRITES = frozenset({"write", "maintain", "admin"})

_MENDS: Mapping[int, str] = {
    401: "put a present token, or the app's present id and private key, into the GitHub connection",
    403: "give the token or app the permission, or wait where GitHub's rate limit is used up",
    404: "check that the token or app may see the repository, and api_base_url",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for a call: header names are in lower case, `body` is parsed, None where it was no JSON."""

    status: int
    headers: Mapping[str, str]
    body: JsonValue

    @property
    def ok(self) -> bool:
        """Whether GitHub did what was asked."""
        return self.status in _OK

    @property
    def remaining(self) -> int | None:
        """How many calls the rate limit leaves; None where there is none, as on many Enterprise Servers."""
        return _number(self.headers.get("x-ratelimit-remaining"))

    @property
    def resets_at(self) -> float | None:
        """When the rate limit begins anew, in seconds since 1970."""
        reset = _number(self.headers.get("x-ratelimit-reset"))
        return None if reset is None else float(reset)

    @property
    def message(self) -> str:
        """GitHub's own words; empty where there are none."""
        return self.text("message")

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page, where the list goes on."""
        found = parse_qs(urlsplit(self._next).query).get("cursor")
        return found[0] if found else None

    @property
    def goes_on(self) -> bool:
        """Whether the list has a page after this one."""
        return bool(self._next)

    @property
    def _next(self) -> str:
        """The address of the next page; empty where there is none."""
        for part in self.headers.get("link", "").split(","):
            address, _, relation = part.partition(";")
            if 'rel="next"' in relation:
                return address.strip().strip("<>")
        return ""

    def text(self, key: str) -> str:
        """A text of the body; empty where there is none."""
        found = self.body.get(key) if isinstance(self.body, dict) else None
        return found if isinstance(found, str) else ""

    def items(self, key: str = "") -> list[dict[str, JsonValue]]:
        """The objects of a list, which is the body or stands in it at `key`; empty where there is none."""
        found = self.body.get(key) if isinstance(self.body, dict) else self.body
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def read_answer(status: int, headers: Mapping[str, str], text: str) -> Answer:
    """The answer that a status, headers and a text are."""
    try:
        body: JsonValue = json.loads(text) if text else None
    except (ValueError, RecursionError):
        body = None
    return Answer(status, {name.lower(): value for name, value in headers.items()}, body)


def refused(call: str, answer: Answer) -> ExternalError:
    """The error that an answer with no success means; its hint says what mends it."""
    said = f": {answer.message}" if answer.message else ""
    limited = answer.status in {403, 429} and (answer.remaining == 0 or "retry-after" in answer.headers)
    if limited:
        told = f"{call} is refused: the rate limit is used up"
    elif answer.body is None and answer.status not in {401, 404}:
        told = f"what answers {call} is no API of GitHub's: status {answer.status}"
    else:
        told = f"{call} is refused with status {answer.status}{said}"
    after = _number(answer.headers.get("retry-after"))
    wait = None if after is None else min(float(after), _LONGEST_WAIT)
    hint = _MENDS.get(answer.status, "check api_base_url")
    return ExternalError("GitHub", told, status=answer.status, retry_after=wait, hint=hint)


def access_of(answer: Answer) -> tuple[str, str] | None:
    """ "write" or "read", and GitHub's own word for it, from what it says of somebody's permission on a repository.

    None where it says nothing.

    Its `permission` knows admin, write, read and none, and takes maintain for write and triage for read; `role_name`
    is finer, and may be a role that an organization made up.
    """
    permission, role = answer.text("permission"), answer.text("role_name")
    if not permission and not role:
        return None
    may_write = permission in _WRITES or (not permission and role in _WRITES)
    return ("write" if may_write else "read"), role or permission


def _number(text: str | None) -> int | None:
    """GitHub sends whole numbers; some servers between send them as floats."""
    try:
        return None if text is None else int(float(text))
    except (ValueError, OverflowError):
        return None
