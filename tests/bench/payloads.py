"""Deliveries of real shape and size: an issue of 11 KB, a pull request of 22 KB, a push of 7 KB, a comment of 10 KB."""

import hashlib
import hmac
import json
import random
import uuid
import zlib
from dataclasses import dataclass
from typing import Any

SECRET = "bench-webhook-secret"
_MARK = "@@@@@@@@"  # eight characters that are replaced in place, so that a body keeps its length


def _urls(base: str, count: int) -> dict[str, str]:
    return {f"link_{number}_url": f"{base}/link-{number}" + "{/id}" * (number % 4 == 0) for number in range(count)}


def _person(login: str) -> dict[str, Any]:
    return {"login": login, "id": 7001, "node_id": "U_7001", "type": "User", **_urls("https://api.github.com/u", 11)}


def repository(full_name: str) -> dict[str, Any]:
    owner, name = full_name.split("/")
    return {
        "id": zlib.crc32(full_name.encode()),
        "node_id": "R_1",
        "name": name,
        "full_name": full_name,
        "private": False,
        "visibility": "public",
        "owner": _person(owner),
        "default_branch": "main",
        **_urls(f"https://api.github.com/repos/{full_name}", 45),
    }


def _issue(full_name: str) -> dict[str, Any]:
    return {
        "id": 1,
        "node_id": f"I_{_MARK}",
        "number": 42,
        "title": "Export stops at 10,000 rows",
        "body": "It stops without a message. " * 60,
        "user": _person("ada"),
        "author_association": "MEMBER",
        "labels": [],
        "state": "open",
        "html_url": f"https://github.com/{full_name}/issues/42",
        "created_at": "2026-11-01T10:00:00Z",
        "updated_at": "2026-11-01T10:00:00Z",
        **_urls("https://api.github.com/i", 8),
    }


def _pull(full_name: str) -> dict[str, Any]:
    return {
        **_issue(full_name),
        "head": {"ref": "topic", "sha": "1" * 40, "user": _person("ada"), "repo": repository(full_name)},
        "base": {"ref": "main", "sha": "2" * 40, "user": _person("acme"), "repo": repository(full_name)},
        "merged": False,
        "draft": False,
    }


def payload(event: str, full_name: str, action: str | None) -> dict[str, Any]:
    base: dict[str, Any] = {"repository": repository(full_name), "sender": _person("ada")}
    if action:
        base["action"] = action
    if event == "issues":
        return {**base, "issue": _issue(full_name), "organization": _person("acme")}
    if event == "issue_comment":
        comment = {"id": 9, "node_id": f"C_{_MARK}", "body": "I see it too", "author_association": "MEMBER"}
        return {**base, "issue": _issue(full_name), "comment": {**comment, "user": _person("ada")}}
    if event == "pull_request":
        return {**base, "number": 42, "pull_request": _pull(full_name)}
    commit: dict[str, Any] = {"id": "3" * 40, "message": "Mend the export " * 20, "author": {"name": "Ada"}}
    commit |= {"added": [], "removed": [], "modified": ["export.py"]}
    return {**base, "ref": "refs/heads/main", "after": "3" * 40, "commits": [commit] * 3, "head_commit": commit}


@dataclass(frozen=True)
class Template:
    """A delivery whose id, and where it has one its subject's node id, is new each time it is sent."""

    event: str
    body: bytes
    head: bytes
    signature: str
    secret: str

    def request(self, path: str) -> bytes:
        return b"".join(self.parts(path))

    def parts(self, path: str, key: str = "") -> list[bytes]:
        key = key or uuid.UUID(int=random.getrandbits(128)).hex
        return [b"POST ", path.encode(), self.head, key.encode(), b"\r\n\r\n", self.body]

    def fresh(self) -> "Template":
        """The same with a subject that nobody has seen, signed anew."""
        body = self.body.replace(_MARK.encode(), b"%08x" % random.getrandbits(32))
        return template(self.event, body, self.secret)


def template(event: str, body: bytes, secret: str = SECRET) -> Template:
    signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    head = (
        f" HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: GitHub-Hookshot/bench\r\nAccept: */*\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nX-GitHub-Event: {event}\r\n"
        f"X-GitHub-Hook-ID: 1\r\nX-Hub-Signature-256: {signature}\r\nX-GitHub-Delivery: "
    )
    return Template(event, body, head.encode(), signature, secret)


def build(event: str, full_name: str, action: str | None, secret: str = SECRET) -> Template:
    return template(event, json.dumps(payload(event, full_name, action), separators=(",", ":")).encode(), secret)


def quiet_mix() -> list[Template]:
    """What nobody listens for: half in repositories that loops watch for other events."""
    return [
        build("pull_request", "acme/repo-3", "synchronize"),
        build("push", "acme/repo-4", None),
        build("issue_comment", "other/thing", "created"),
        build("issues", "other/thing", "labeled"),
        build("pull_request", "other/thing", "opened"),
        build("push", "other/thing", None),
    ]


def wanted() -> Template:
    """What exactly one of the loops listens for."""
    return build("issues", "acme/repo-7", "opened")
