"""What GitHub would send for the demo's repository, in the shape of its real payloads."""

from datetime import UTC, datetime
from typing import Any

_OWNER = {"login": "acme", "id": 4217, "node_id": "O_demo4217", "type": "Organization", "site_admin": False}
_MAINTAINER = {"login": "ada", "id": 7001, "node_id": "U_demo7001", "type": "User", "site_admin": False}
_REPOSITORY = {
    "id": 990017,
    "node_id": "R_demo990017",
    "name": "widgets",
    "full_name": "acme/widgets",
    "private": False,
    "visibility": "public",
    "owner": _OWNER,
    "html_url": "https://github.com/acme/widgets",
    "default_branch": "main",
}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def issue_opened(*, action: str = "opened") -> dict[str, Any]:
    """An issue of a maintainer; `action` is what happened to it."""
    return {
        "action": action,
        "issue": {
            "id": 55100042,
            "node_id": "I_demo55100042",
            "number": 42,
            "title": "Export stops at 10,000 rows",
            "body": "Steps: export a report with more than 10,000 rows.\n\nExpected: all rows.\nActual: 10,000 rows.",
            "user": _MAINTAINER,
            "author_association": "MEMBER",
            "labels": [{"id": 1, "name": "bug", "color": "d73a4a"}],
            "state": "closed" if action == "closed" else "open",
            "html_url": "https://github.com/acme/widgets/issues/42",
            "created_at": _now(),
            "updated_at": _now(),
        },
        "repository": _REPOSITORY,
        "organization": _OWNER,
        "sender": _MAINTAINER,
    }


def push() -> dict[str, Any]:
    """Two commits pushed to the main branch."""
    commits = [
        {"id": digit * 40, "message": message, "author": {"name": "Ada", "username": "ada"}, "timestamp": _now()}
        for digit, message in (("1", "Raise the export limit"), ("2", "Test an export of 50,000 rows"))
    ]
    return {
        "ref": "refs/heads/main",
        "before": "0" * 40,
        "after": "2" * 40,
        "repository": _REPOSITORY,
        "pusher": {"name": "ada", "email": "ada@example.com"},
        "sender": _MAINTAINER,
        "commits": commits,
        "head_commit": commits[-1],
        "compare": "https://github.com/acme/widgets/compare/000000000000...222222222222",
    }
