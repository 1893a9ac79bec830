"""What one GitHub delivery costs between HTTP and matching: `python -m tests.bench.github`.

Against the floor of any receiver: the HMAC of the body and a typed decode of three fields.
"""

import hmac
import json
import timeit
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlencode

import msgspec

from loops.event import Delivery, Event
from triggers.github import GitHubSource
from triggers.source import Incoming

_SECRET = "It's a Secret to Everybody"
_CALLS = 5_000
_RECEIVED = datetime(2026, 11, 1, tzinfo=UTC)


class _Repository(msgspec.Struct):
    full_name: str | None = None


class _Three(msgspec.Struct):
    action: str | None = None
    repository: _Repository | None = None
    sender: dict | None = None


def payload(size: int) -> bytes:
    """A pull request's payload of about this many bytes, nested and escaped as GitHub's are."""
    account = {
        "login": "ada",
        "id": 7001,
        "type": "User",
        "site_admin": False,
        "url": "https://api.github.com/users/ada",
    }
    repository = {
        "id": 990017,
        "full_name": "acme/widgets",
        "private": False,
        "owner": account,
        **{f"{name}_url": f"https://api.github.com/repos/acme/widgets/{name}{{/sha}}" for name in _names(40)},
    }
    body: dict[str, object] = {
        "action": "opened",
        "number": 7,
        "pull_request": {
            "id": 1,
            "node_id": "PR_1",
            "number": 7,
            "title": "Raise the limit",
            "body": "Why\r\n\r\n- it stops\r\n",
            "html_url": "https://github.com/acme/widgets/pull/7",
            "user": account,
            "author_association": "MEMBER",
            "updated_at": "2026-11-01T10:00:00Z",
            "head": {"ref": "raise", "user": account, "repo": repository},
            "base": {"ref": "main", "user": account, "repo": repository},
            "labels": [],
        },
        "repository": repository,
        "sender": account,
    }
    bare = len(json.dumps(body, separators=(",", ":")))
    body["changes"] = dict.fromkeys(_names(max(1, (size - bare) // 73)), "x" * 60)
    return json.dumps(body, separators=(",", ":")).encode()


def _names(count: int) -> list[str]:
    return [f"part{number:03}" for number in range(count)]


def incoming(body: bytes, content_type: str = "application/json") -> Incoming:
    signature = "sha256=" + hmac.digest(_SECRET.encode(), body, "sha256").hex()
    headers = {
        "x-github-event": "pull_request",
        "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "x-hub-signature-256": signature,
        "content-type": content_type,
    }
    return Incoming(headers, body)


def measure(statement: Callable[[], object], calls: int = _CALLS) -> float:
    """The best of seven rounds, in microseconds a call."""
    return min(timeit.repeat(statement, number=calls, repeat=7)) / calls * 1e6


def main() -> None:
    for size in (8_000, 21_400):
        report(payload(size))


def report(body: bytes) -> None:
    source, three, secrets = GitHubSource(), msgspec.json.Decoder(_Three), {"webhook_secret": _SECRET}
    one, form = incoming(body), incoming(urlencode({"payload": body}).encode(), "application/x-www-form-urlencoded")
    arrival = source.receive(one, secrets)
    delivery = Delivery("d", "p", 1, "github", arrival.key, arrival.name, _RECEIVED, one.headers, body)

    def floor() -> object:
        return hmac.digest(_SECRET.encode(), body, "sha256"), three.decode(body)

    def build() -> list[Event]:
        events = source.parse(delivery, arrival.parsed, {"app_slug": "loops"})
        assert isinstance(events, list)
        return events

    least = measure(floor)
    receive = measure(partial(source.receive, one, secrets))
    as_form = measure(partial(source.receive, form, secrets))
    whole = measure(lambda: build()[0].properties["github_event"], _CALLS // 5)
    print(f"{len(body):,} bytes: floor {least:.1f} µs, receive {receive:.1f} µs ({receive / least:.2f}x)")
    print(f"  form-encoded, {len(form.body):,} bytes: receive {as_form:.1f} µs")
    print(f"  event {measure(build):.1f} µs, with github_event read {whole:.1f} µs")


if __name__ == "__main__":
    main()
