"""What GitHub, Slack and PostHog would send for the demonstration, in the shape of their real payloads."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from server.demo_slack import APP, CHANNEL, TEAM, USER

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


def slack_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message that stands in the stand-in's channel, as Slack tells the app of it."""
    told = {key: value for key, value in message.items() if key not in {"metadata", "reactions"}}
    return {
        "team_id": TEAM,
        "api_app_id": APP,
        "event": {**told, "channel": CHANNEL, "channel_type": "channel", "event_ts": message["ts"]},
        "type": "event_callback",
        "event_id": f"Ev{uuid.uuid4().hex[:10].upper()}",
        "event_time": int(float(message["ts"])),
        "authorizations": [{"enterprise_id": None, "team_id": TEAM, "user_id": USER, "is_bot": True}],
        "is_ext_shared_channel": False,
    }


def signed_up(plan: str = "pro") -> dict[str, Any]:
    """Somebody signed up; who it is stands beside the event, as in the body that a destination has by default."""
    return {
        "event": {
            "uuid": str(uuid.uuid4()),
            "event": "signed_up",
            "distinct_id": "grace",
            "properties": {"plan": plan, "seats": 25, "$browser": "Firefox", "$groups": {"company": "acme"}},
            "timestamp": _now(),
            "url": "https://posthog.example.com/project/7/events",
        },
        "person": {
            "id": "01990000-0000-7000-8000-000000000001",
            "name": "grace@example.com",
            "properties": {"email": "grace@example.com"},
            "url": "https://posthog.example.com/project/7/person/grace",
        },
    }
