"""Bodies that PostHog and its SDKs really sent, where they lie beside this checkout."""

import json
from pathlib import Path
from typing import Any

import pytest

from loops.event import Event
from tests.unit.triggers.posthog.deliveries import SOURCE, delivery
from triggers.posthog.body import decode, unpack
from triggers.posthog.event import api_key
from triggers.source import Ignored, Incoming

CORPUS = Path(__file__).parents[5] / "shared" / "data" / "posthog"
WEBHOOKS = sorted(CORPUS.glob("webhook_*.json"))
WEBHOOKS = [file for file in WEBHOOKS if not file.name.endswith(".headers.json")]
CAPTURES = [file for file in sorted(CORPUS.glob("raw/*.body")) if "flags_" not in file.name]

pytestmark = pytest.mark.skipif(not WEBHOOKS, reason="the corpus of real payloads is not beside this checkout")


def told(index: str) -> dict[str, str]:
    """What the corpus says of each file: the names of its events."""
    rows = [line.split("\t") for line in (CORPUS / index).read_text("utf-8").splitlines()[1:]]
    return {row[0]: row[2] for row in rows}


def events(name: str, body: bytes, parsed: object = None) -> list[Event]:
    found = SOURCE.parse(delivery(name, body), parsed, {})
    assert not isinstance(found, Ignored), found
    return found


@pytest.mark.parametrize("file", WEBHOOKS, ids=lambda file: file.name)
def test_every_webhook_body_is_one_event_of_the_name_it_tells(file: Path) -> None:
    body = file.read_bytes()
    arrival = SOURCE.receive(Incoming({}, body), {})
    (event,) = events(arrival.name, body, arrival.parsed)
    name = told("index.tsv")[file.name]
    assert event.name == ("$webhook_received" if name == "-" else name)
    assert events(arrival.name, body) == [event]


@pytest.mark.parametrize("file", CAPTURES, ids=lambda file: file.name)
def test_every_captured_body_is_the_events_that_it_tells(file: Path) -> None:
    body = file.read_bytes()
    unpacked = unpack(body)
    value: Any = decode(unpacked)
    assert api_key(value) == "phc_test"
    arrival = SOURCE.captured({**value, "historical_migration": False}, len(body), len(unpacked))
    plain = json.dumps({**value, "historical_migration": False}).encode()
    found = events(arrival.name, plain, arrival.parsed)
    assert [event.name for event in found] == told("index.tsv")[f"raw/{file.name}"].split("+")
    assert len({event.uuid for event in found}) == len(found)
    assert events(arrival.name, plain) == found
