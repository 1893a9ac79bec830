"""Payloads as no sender should write them: each is an event or a typed refusal, never another exception."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from loops.errors import DeliveryError
from loops.filters import compile_filter
from tests.unit.triggers.github.deliveries import FIXTURES, SOURCE, delivery, encoded, fixture, receive
from triggers.source import Ignored

NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))

strange = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**18, 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from(["", "x" * 100_000, "\0", "\ud800", [], {}, [[]], {"login": []}, {"id": "7", "login": 5}])
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything inside of a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in inner for place in ((*path, key), *places(item, (*path, key)))]


PLACES = {name: places(fixture(name)) for name in NAMES}


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
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
    return name.split("__")[0], payload


def outcome(event_type: str, body: bytes) -> None:
    """Receive, parse from memory and from the store, read and store everything."""
    try:
        arrival = receive(event_type, body)
    except DeliveryError:
        return
    stored = delivery(event_type, body)
    result = SOURCE.parse(stored, arrival.parsed, {"app_slug": "loops"})
    assert SOURCE.parse(stored, None, {"app_slug": "loops"}) == result
    if isinstance(result, Ignored):
        assert result.reason == arrival.ignored
        return
    (event,) = result
    assert event.subject == arrival.subject
    everything = [dict(event.properties), event.uuid, event.distinct_id, event.subject, event.claim, event.url]
    text = json.dumps(everything, ensure_ascii=False, allow_nan=False)
    assert "\0" not in text
    assert "\\u0000" not in text.replace("\\\\", "")
    text.encode()
    compile_filter({"properties": [{"key": "repository", "value": "acme/widgets"}]}).explain(event)


@given(mutated())
def test_a_mutated_payload_is_an_event_or_a_refusal(made: tuple[str, dict[str, Any]]) -> None:
    event_type, payload = made
    outcome(event_type, json.dumps(payload).encode())


@given(name=st.sampled_from(NAMES), place=st.floats(0, 1), insertion=st.binary(max_size=3), cut=st.integers(0, 3))
def test_damaged_bytes_are_an_event_or_a_refusal(name: str, place: float, insertion: bytes, cut: int) -> None:
    body = encoded(fixture(name))
    at = int(place * len(body))
    outcome(name.split("__")[0], body[:at] + insertion + body[at + cut :])


@given(st.binary(max_size=60), st.sampled_from(["issues", "ping", "push"]))
def test_any_bytes_are_an_event_or_a_refusal(body: bytes, event_type: str) -> None:
    outcome(event_type, body)
    outcome(event_type, b"payload=" + body)


@given(st.recursive(strange, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)))
def test_any_json_under_the_known_names_is_an_event_or_a_refusal(value: Any) -> None:
    known = ("repository", "sender", "issue", "comment", "pull_request", "ref", "installation", "commits", "action")
    outcome("push", json.dumps(dict.fromkeys(known, value)).encode())
