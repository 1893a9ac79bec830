"""Deliveries as GitHub, Slack and PostHog send them: their headers, and their signatures over the bytes."""

import base64
import hmac
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Posting:
    """What is sent to a hook, over and over the same bytes where it is sent again."""

    body: bytes
    headers: Mapping[str, str]


def github(secret: str, event: str, payload: Mapping[str, Any]) -> Posting:
    """A delivery of a webhook of GitHub's; with another secret than the connection's it is a forged one."""
    body = _encoded(payload)
    headers = {
        "User-Agent": "GitHub-Hookshot/demo",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-Hub-Signature-256": f"sha256={hmac.digest(secret.encode(), body, 'sha256').hex()}",
    }
    return _posting(body, headers)


def slack(secret: str, payload: Mapping[str, Any]) -> Posting:
    """A delivery of Slack's Events API."""
    body, now = _encoded(payload), str(int(time.time()))
    signature = hmac.digest(secret.encode(), f"v0:{now}:".encode() + body, "sha256").hex()
    headers = {
        "User-Agent": "Slackbot 1.0 (demo)",
        "X-Slack-Request-Timestamp": now,
        "X-Slack-Signature": f"v0={signature}",
    }
    return _posting(body, headers)


def posthog(secret: str, payload: Mapping[str, Any]) -> Posting:
    """A delivery of a webhook destination of PostHog's, signed after Standard Webhooks."""
    body, key, now = _encoded(payload), f"msg_{uuid.uuid4().hex}", str(int(time.time()))
    opened = base64.b64decode(secret.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.digest(opened, f"{key}.{now}.".encode() + body, "sha256")).decode()
    headers = {"webhook-id": key, "webhook-timestamp": now, "webhook-signature": f"v1,{signature}"}
    return _posting(body, headers)


def _encoded(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload).encode()


def _posting(body: bytes, headers: Mapping[str, str]) -> Posting:
    return Posting(body, {"Content-Type": "application/json", **headers})
