"""Every payload of the shared collection, where it is to be had: answered as documented, never by an exception."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from loops.errors import PayloadMalformed
from tests.unit.triggers.slack.deliveries import FORM, REAL, SECRETS, SOURCE, delivery, incoming
from triggers.slack.ignored import MESSAGES, NEW_MESSAGES, NO_COMMANDS, NO_INTERACTION
from triggers.source import Arrival, Ignored

FILES = sorted([*REAL.glob("*.json"), *REAL.glob("*.form")])
TRANSPORTS = (
    {line.split("\t")[0]: line.split("\t")[7] for line in (REAL / "index.tsv").read_text("utf-8").splitlines()[1:]}
    if FILES
    else {}
)
FLAT = {
    "integration_id": int,
    "channel": str | None,
    "channel_type": str | None,
    "slack_team_id": str | None,
    "user": str | None,
    "bot_id": str | None,
    "app_id": str | None,
    "own_app": bool,
    "subtype": str | None,
    "text": str | None,
    "message_text": str,
    "ts": str | None,
    "thread_ts": str | None,
    "is_thread_reply": bool,
    "is_ext_shared_channel": bool,
    "files": list,
}

pytestmark = pytest.mark.skipif(not FILES, reason="the collection of real payloads is not on this machine")


def sent(path: Path) -> tuple[bytes, str]:
    """The body as Slack sends it, and its content type."""
    body, transport = path.read_bytes(), TRANSPORTS[path.name]
    if path.suffix == ".form":
        return body, FORM
    if transport == "form":
        return urlencode(json.loads(body)).encode(), FORM
    if transport == "form(payload=)":
        return urlencode({"payload": body}).encode(), FORM
    return body, "application/json"


def received(path: Path) -> Arrival:
    body, content_type = sent(path)
    return SOURCE.receive(incoming(body, content_type=content_type), SECRETS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_real_payload_is_answered_as_documented(path: Path) -> None:
    payload: Any = json.loads(path.read_bytes()) if path.suffix == ".json" else {"command": "/x"}
    if not payload.get("type") and not payload.get("command"):
        # Shapes without values, and parts of what Slack sends.
        with pytest.raises(PayloadMalformed, match="type is missing"):
            received(path)
        return
    arrival = received(path)
    if payload.get("type") is None:
        assert arrival.ignored == NO_COMMANDS
    elif TRANSPORTS[path.name].startswith("form"):
        assert arrival.ignored == NO_INTERACTION
    elif payload["type"] == "url_verification":
        assert arrival.told == {"challenge": payload["challenge"]}
    elif payload["type"] == "event_callback":
        an_event(path, payload, arrival)
    else:
        assert arrival.ignored
    assert arrival.kept


def an_event(path: Path, payload: dict[str, Any], arrival: Arrival) -> None:
    inner = payload["event"]
    assert arrival.name == inner["type"]
    assert arrival.key == payload.get("event_id") or arrival.key.startswith(f"{inner['type']}:")
    result = SOURCE.parse(delivery(path.read_bytes(), arrival), arrival.parsed, {})
    if inner["type"] not in MESSAGES or inner.get("subtype") not in {None, *NEW_MESSAGES}:
        assert isinstance(result, Ignored)
        assert result.reason == arrival.ignored
        return
    assert isinstance(result, list)
    (event,) = result
    found = dict(event.properties)
    for key, kind in FLAT.items():
        assert isinstance(found[key], kind), f"{key} is {found[key]!r}"
    assert set(found) == {*FLAT, "slack_event"}
    assert found["slack_event"] == inner
    for key in ("text", "channel", "ts", "thread_ts"):
        assert found[key] == inner.get(key)
    assert found["is_thread_reply"] == ("thread_ts" in inner and inner["thread_ts"] != inner["ts"])
    teams = [one["team_id"] for one in payload.get("authorizations", []) if one.get("team_id")]
    assert found["slack_team_id"] == (teams or [payload.get("team_id")])[0]
    assert (inner.get("text") or "").strip() in str(found["message_text"])
    if "channel" in inner and "ts" in inner:
        assert event.claim == f"slack:{found['slack_team_id']}:{inner['channel']}:{inner['ts']}"


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if "event_callback__" in path.name or path.name.startswith("inner-")],
    ids=lambda path: path.stem,
)
def test_every_inner_event_is_answered_inside_of_an_envelope(path: Path) -> None:
    """Parts and shapes of the collection, as they arrive: in an envelope with an id."""
    payload: Any = json.loads(path.read_bytes())
    inner = payload.get("event", payload)
    body = json.dumps(
        {**payload, "type": "event_callback", "event_id": "Ev1", "team_id": "T1", "event": inner}
    ).encode()
    arrival = SOURCE.receive(incoming(body), SECRETS)
    result = SOURCE.parse(delivery(body, arrival), None, {})
    new = inner["type"] in MESSAGES and (inner.get("subtype") or None) in {None, *NEW_MESSAGES}
    assert isinstance(result, list) == (new and not (inner["type"] == "app_mention" and inner.get("edited")))
