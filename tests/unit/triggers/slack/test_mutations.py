"""Payloads as no sender should write them: each is an event, ignored or a refusal that names what is wrong."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from loops.errors import PayloadMalformed
from loops.filters import compile_filter
from tests.unit.triggers.github.test_mutations import places, strange
from tests.unit.triggers.slack.deliveries import (
    FIXTURES,
    FORM,
    OWN,
    SECRETS,
    SOURCE,
    delivery,
    encoded,
    fixture,
    form,
    incoming,
    interaction,
)
from triggers.source import Ignored

NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))
PLACES = {name: places(fixture(name)) for name in NAMES}
SETTINGS = OWN | {"workspace_url": "https://acme.slack.com"}


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(NAMES))
    payload = fixture(name)
    for path in draw(st.lists(st.sampled_from(PLACES[name]), min_size=1, max_size=4)):
        parent: Any = payload
        try:
            for key in path[:-1]:
                parent = parent[key]
            if draw(st.booleans()):
                del parent[path[-1]]
            else:
                parent[path[-1]] = draw(strange)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    return payload


def outcome(body: bytes, content_type: str | None = None) -> None:
    """Receive, parse from memory and from the store, read and store everything."""
    sent = incoming(body, content_type=content_type)
    try:
        arrival = SOURCE.receive(sent, SECRETS)
    except PayloadMalformed as refused:
        if not refused.message:
            raise AssertionError("a refusal that names nothing") from refused
        return
    assert arrival.name
    assert 0 < len(arrival.key) <= 200
    json.dumps([arrival.key, arrival.name, arrival.subject, arrival.ignored, dict(arrival.told)]).encode()
    kept = {name: value for name, value in sent.headers.items() if name in SOURCE.kept_headers}
    stored = replace(delivery(body, arrival), headers=kept)
    result = SOURCE.parse(stored, arrival.parsed, SETTINGS)
    if isinstance(result, Ignored):
        assert result.reason == arrival.ignored
        return
    assert SOURCE.parse(stored, None, SETTINGS) == result
    (event,) = result
    assert event.subject == arrival.subject
    everything = [dict(event.properties), event.uuid, event.distinct_id, event.subject, event.claim, event.url]
    text = json.dumps(everything, ensure_ascii=False, allow_nan=False)
    assert "\\u0000" not in text.replace("\\\\", "")
    text.encode()
    compile_filter({"properties": [{"key": "channel", "value": "C0ALERTS"}]}).explain(event)


@given(mutated())
def test_a_mutated_payload_is_an_event_or_a_refusal(payload: dict[str, Any]) -> None:
    outcome(json.dumps(payload).encode())
    outcome(interaction(payload))


@given(name=st.sampled_from(NAMES), place=st.floats(0, 1), insertion=st.binary(max_size=3), cut=st.integers(0, 3))
def test_damaged_bytes_are_an_event_or_a_refusal(name: str, place: float, insertion: bytes, cut: int) -> None:
    body = encoded(fixture(name))
    at = int(place * len(body))
    outcome(body[:at] + insertion + body[at + cut :], "application/json")


@given(place=st.floats(0, 1), insertion=st.binary(max_size=3), cut=st.integers(0, 30))
def test_a_damaged_form_is_ignored_or_a_refusal(place: float, insertion: bytes, cut: int) -> None:
    for body in (form("slash_command__plain"), interaction(fixture("block_actions__button"))):
        at = int(place * len(body))
        outcome(body[:at] + insertion + body[at + cut :], FORM)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_event_or_a_refusal(body: bytes) -> None:
    for content_type in ("application/json", FORM, "text/plain", ""):
        outcome(body, content_type or "x")
        outcome(b"payload=" + body, content_type or "x")


@given(
    st.recursive(strange, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)),
    st.sampled_from(["message", "app_mention"]),
)
def test_any_json_under_the_known_names_is_an_event_or_a_refusal(value: Any, kind: str) -> None:
    keys = ("channel", "user", "ts", "thread_ts", "text", "blocks", "attachments", "files", "bot_id", "bot_profile")
    envelope = dict.fromkeys(("authorizations", "team_id", "api_app_id", "is_ext_shared_channel"), value)
    event = dict.fromkeys(keys, value) | {"type": kind}
    outcome(json.dumps({**envelope, "type": "event_callback", "event_id": "Ev1", "event": event}).encode())
