"""Requests as GitHub, Slack, PostHog, its SDKs and any webhook send them: signed, packed, with their headers."""

import base64
import gzip
import hmac
import json
import random
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.integration.mutating import damaged, encoded, mutated, noise

FIXTURES = Path(__file__).parents[1] / "fixtures"
DATA = Path(__file__).parents[3] / "shared" / "data"
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
SECRET = "what-every-sender-of-these-tests-knows"
SENDERS = ("github", "slack", "posthog", "capture", "webhook")

_HEADERS = ("X-GitHub-Event", "X-GitHub-Delivery", "Content-Type", "Idempotency-Key")
_ODD_HEADERS = (
    "",
    "é ü\u2028",
    "gzip",
    "multipart/form-data",
    "a/b;;;=",
    FORM,
    "x" * 300,
    "text/plain; charset=utf-16",
)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request; `path` with its query, encoded."""

    sender: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Hooks:
    """Where a service takes what each sender sends."""

    github: str
    slack: str
    posthog: str
    webhooks: tuple[str, ...]
    api_key: str


# As they sign


def github(path: str, event: str, body: bytes, key: str, *, form: bool = False) -> Sent:
    headers = {
        "Content-Type": FORM if form else JSON,
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": key,
        "X-Hub-Signature-256": "sha256=" + hmac.digest(SECRET.encode(), body, "sha256").hex(),
    }
    return Sent("github", path, headers, body)


def slack(path: str, body: bytes, *, form: bool = False) -> Sent:
    stamp = str(int(time.time()))
    signature = hmac.digest(SECRET.encode(), f"v0:{stamp}:".encode() + body, "sha256").hex()
    headers = {
        "Content-Type": FORM if form else JSON,
        "X-Slack-Request-Timestamp": stamp,
        "X-Slack-Signature": f"v0={signature}",
    }
    return Sent("slack", path, headers, body)


def posthog(path: str, body: bytes) -> Sent:
    return Sent("posthog", path, {"Content-Type": JSON, "X-Webhook-Secret": SECRET}, body)


def webhook(path: str, body: bytes, key: str, content_type: str = JSON) -> Sent:
    return Sent("webhook", path, {"Content-Type": content_type, "Idempotency-Key": key}, body)


# What they send, changed


@cache
def seeds(sender: str) -> tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]]:
    """Names and bodies of the fixtures of a sender, and of its real payloads where they lie beside this checkout."""
    folder = "posthog" if sender == "capture" else sender
    prefix = {"capture": "capture", "posthog": "webhook"}.get(sender, "")
    real = DATA / folder
    files = [*real.glob("raw/*.body")] if sender == "capture" else [*real.glob(f"{prefix}*.json")]
    return _named((FIXTURES / folder).glob(f"{prefix}*")), _named(file for file in files if _is_json(file))


def _is_json(file: Path) -> bool:
    try:
        return isinstance(json.loads(file.read_bytes()), dict) and not file.name.endswith(".headers.json")
    except ValueError:
        return False


def _named(files: Iterable[Path]) -> list[tuple[str, bytes]]:
    return [(file.stem.split("__")[0], file.read_bytes()) for file in sorted(files)]


def changed(hooks: Hooks, sender: str, number: int) -> Sent:
    """The request of this number, always the same but for the time in its signature."""
    chance = random.Random(f"{sender} {number}")
    sent = _MAKERS[sender](hooks, chance)
    return replace(sent, headers=_with_odd_headers(sent.headers, chance))


def _with_odd_headers(headers: Mapping[str, str], chance: random.Random) -> dict[str, str]:
    found = dict(headers)
    if chance.random() < 0.1:
        name = chance.choice([one for one in _HEADERS if one in found])
        found[name] = chance.choice(_ODD_HEADERS)
        if chance.random() < 0.3:
            del found[name]
    if chance.random() < 0.03:
        found["Content-Encoding"] = chance.choice(["gzip", "deflate", "br", "zstd", "identity", "x"])
    return found


def _body(body: bytes, chance: random.Random, **fresh: Any) -> bytes:
    payload = json.loads(body)
    if isinstance(payload, dict):
        payload |= {key: value for key, value in fresh.items() if key in payload}
    made = encoded(mutated(payload, chance) if chance.random() < 0.9 else payload, chance)
    return damaged(made, chance) if chance.random() < 0.2 else made


def _seed(sender: str, chance: random.Random) -> tuple[str, bytes]:
    """Half of the time one of the fixtures, which are small."""
    fixtures, real = seeds(sender)
    return chance.choice(real if real and chance.random() < 0.5 else fixtures)


def _of_github(hooks: Hooks, chance: random.Random) -> Sent:
    event, body = _seed("github", chance)
    payload = json.loads(body)
    for part in payload.values() if isinstance(payload, dict) else ():
        if isinstance(part, dict) and "node_id" in part:
            part["node_id"] = noise(chance, 9)
    body = _body(json.dumps(payload).encode(), chance, after=noise(chance, 40))
    form = chance.random() < 0.1
    if form:
        body = urlencode({"payload": body}).encode()
        body = damaged(body, chance) if chance.random() < 0.3 else body
    return github(hooks.github, event, body, str(uuid.UUID(int=chance.getrandbits(128))), form=form)


def _of_slack(hooks: Hooks, chance: random.Random) -> Sent:
    _, body = _seed("slack", chance)
    form = not body.startswith((b"{", b"["))
    if not form:
        payload = json.loads(body)
        if isinstance(payload, dict) and isinstance(payload.get("event"), dict) and "ts" in payload["event"]:
            payload["event"]["ts"] = f"{chance.randrange(10**10)}.{chance.randrange(10**6):06}"
        body = _body(json.dumps(payload).encode(), chance, event_id=f"Ev{noise(chance, 9)}")
        form = chance.random() < 0.2
        body = urlencode({"payload": body}).encode() if form else body
    if form and chance.random() < 0.4:
        body = damaged(body, chance)
    return slack(hooks.slack, body, form=form)


def _fresh_ids(value: Any, key: str, chance: random.Random) -> Any:
    """The same with the API key of these tests, and for most events ids of their own."""
    if isinstance(value, list):
        return [_fresh_ids(one, key, chance) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: _fresh_ids(one, key, chance) for name, one in value.items()}
    if "uuid" in found and chance.random() < 0.9:
        found["uuid"] = str(uuid.UUID(int=chance.getrandbits(128)))
    return found | {name: key for name in ("api_key", "token") if name in found}


def _of_posthog(hooks: Hooks, chance: random.Random) -> Sent:
    _, body = _seed("posthog", chance)
    fresh = _fresh_ids(json.loads(body), hooks.api_key, chance)
    return posthog(hooks.posthog, _body(json.dumps(fresh).encode(), chance))


def _of_capture(hooks: Hooks, chance: random.Random) -> Sent:
    _, body = _seed("capture", chance)
    fresh = _fresh_ids(json.loads(body), hooks.api_key, chance)
    body = _body(json.dumps([fresh] if chance.random() < 0.1 else fresh).encode(), chance)
    headers = {"Content-Type": JSON}
    match chance.randrange(8):
        case 0:
            body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
        case 1:
            body, headers["Content-Type"] = gzip.compress(body), "text/plain"
        case 2:
            body = base64.b64encode(body)
        case 3:
            body, headers["Content-Type"] = urlencode({"data": base64.b64encode(body)}).encode(), FORM
        case 4:
            body, headers["Content-Type"] = b"data=" + quote(body).encode(), FORM
    if chance.random() < 0.1:
        body = damaged(body, chance)
    query = chance.choice(["", "", f"?token={hooks.api_key}", "?compression=gzip-js&ver=1", "?_=%ff&ip=1"])
    query = "?compression=lz64" if chance.random() < 0.02 else query
    return Sent(
        "capture", chance.choice(["/batch/", "/e/", "/i/v0/e/", "/capture/", "/ingest/e/"]) + query, headers, body
    )


def _of_webhook(hooks: Hooks, chance: random.Random) -> Sent:
    _, body = _seed("webhook", chance)
    kind = chance.choice([JSON, JSON, "text/plain", FORM, "application/vnd.a+json", "application/octet-stream"])
    made = urlencode(json.loads(body)).encode() if kind == FORM else _body(body, chance)
    query = chance.choice(["", "", "?a=1&a=2&event=x", "?%ff=%00", f"?{quote(noise(chance, 20))}"])
    if chance.random() < 0.03:
        query = "?" + "&".join(f"k{number}=" for number in range(1100))
    sent = webhook(chance.choice(hooks.webhooks) + query, made, noise(chance, 12), kind)
    who = chance.choice(["ada", "é", noise(chance, 3000), ""])
    return replace(sent, headers={**sent.headers, "X-Who": who}) if chance.random() < 0.2 else sent


_MAKERS = {
    "github": _of_github,
    "slack": _of_slack,
    "posthog": _of_posthog,
    "capture": _of_capture,
    "webhook": _of_webhook,
}
