"""Every payload of the shared collection, where it is to be had: GH-30."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from loops.filters import compile_filter
from tests.unit.triggers.github.deliveries import REAL, SOURCE, delivery, incoming, receive, sign
from triggers.source import Ignored

FILES = sorted(REAL.glob("*.json"))
FLAT = {
    "integration_id": int,
    "event_type": str,
    "action": str | None,
    "repository": str | None,
    "repository_id": int | None,
    "repository_visibility": str | None,
    "sender": str | None,
    "bot_sender": str | None,
    "own_app": bool,
    "author_association": str | None,
    "actor_access": str,
    "actor_access_reason": str,
    "title": str | None,
    "number": int | None,
    "body": str | None,
    "url": str | None,
    "review_state": str | None,
    "ref": str,
    "branch": str | None,
    "installation_id": int | None,
}
IGNORED = {
    "ping",
    "meta",
    "installation",
    "installation_repositories",
    "github_app_authorization",
    "marketplace_purchase",
    "membership",
    "org_block",
    "organization",
    "projects_v2_item",
    "security_advisory",
    "sponsorship",
    "team",
}

pytestmark = pytest.mark.skipif(not FILES, reason="the collection of real payloads is not on this machine")


def at(payload: Any, *path: str) -> Any:
    for key in path:
        payload = payload.get(key) if isinstance(payload, dict) else None
    return payload


def first(payload: dict[str, Any], *keys: str) -> Any:
    return next((payload[key] for key in keys if isinstance(payload.get(key), dict)), {})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_real_payload_is_received_and_read_as_documented(path: Path) -> None:
    body, event_type = path.read_bytes(), path.name.split("__")[0]
    arrival = receive(event_type, body)
    result = SOURCE.parse(delivery(event_type, body), arrival.parsed, {"app_slug": "loops"})
    if isinstance(result, Ignored):
        assert event_type in IGNORED
        assert arrival.ignored == result.reason
        return
    (event,) = result
    payload, found = json.loads(body), dict(event.properties)
    for key, kind in FLAT.items():
        assert isinstance(found[key], kind), f"{key} is {found[key]!r}"
    assert set(found) == {*FLAT, "github_event"}
    assert found["event_type"] == event_type
    assert found["action"] == payload.get("action")
    full_name = at(payload, "repository", "full_name")
    assert found["repository"] == (full_name and full_name.lower())
    assert found["sender"] == at(payload, "sender", "login")
    about = first(payload, "comment", "review", "pull_request", "issue", "discussion", "release")
    if about:
        assert (found["body"], found["url"]) == (about.get("body"), about.get("html_url"))
        assert found["author_association"] == about.get("author_association")
    filed = first(payload, "pull_request", "issue")
    if filed:
        assert (found["title"], found["number"]) == (filed.get("title"), filed.get("number"))
    if event_type == "push":
        assert "message" not in json.dumps(found["github_event"]["commits"])  # type: ignore[index,call-overload]
    else:
        assert found["github_event"] == payload
    assert event.subject == arrival.subject


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_filter_on_what_a_real_payload_lacks_does_not_match(path: Path) -> None:
    body, event_type = path.read_bytes(), path.name.split("__")[0]
    result = SOURCE.parse(delivery(event_type, body), None, {})
    for event in result if isinstance(result, list) else ():
        missing = [key for key in FLAT if event.properties[key] is None]
        for key in missing:
            assert not compile_filter({"properties": [{"key": key, "value": ["x", "", 0, False]}]}).matches(event)
            assert compile_filter({"properties": [{"key": key, "operator": "is_not_set"}]}).matches(event)


@pytest.mark.parametrize("path", FILES[::10], ids=lambda path: path.stem)
def test_a_real_payload_reads_the_same_as_a_form(path: Path) -> None:
    event_type = path.name.split("__")[0]
    form = urlencode({"payload": path.read_bytes()}).encode()
    sent = incoming(event_type, form, content_type="application/x-www-form-urlencoded")
    arrival = SOURCE.receive(sent, {"webhook_secret": "It's a Secret to Everybody"})
    plain = SOURCE.parse(delivery(event_type, path.read_bytes()), None, {})
    assert SOURCE.parse(delivery(event_type, form), arrival.parsed, {}) == plain
    assert sent.headers["x-hub-signature-256"] == sign(form)
