"""Whatever is changed about a body, it is read or refused, never a fault of ours; a refusal names a field."""

import copy
import gzip
import json
import random
import re
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from loops.errors import DeliveryError
from tests.unit.triggers.posthog.deliveries import SOURCE, delivery, fixture
from triggers.posthog.body import decode, unpack
from triggers.posthog.people import People, enriched
from triggers.source import Arrival, Ignored, Incoming

CAPTURES = [fixture("capture__batch"), fixture("capture__browser_event"), [fixture("capture__browser_event")]]
WEBHOOKS = [fixture("webhook__pageview"), fixture("webhook__2024"), fixture("webhook__own_template")]
ODD: list[Any] = [
    None, True, 0, -1, 2**70, 1.5e300, "", " ", "x" * 5000, "\0", "\ud800", "$scheduled", [], {}, [[]], [None],
    {"$set": []}, {"": {}}, [{}] * 3,
]  # fmt: skip
_FIELD = re.compile(r"^(the (body|batch)|batch|event|distinct_id|uuid|properties|\$set)")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def mutated(value: Any, seed: int) -> Any:
    """The value with up to three things of it replaced, taken away, or doubled under another name."""
    chance, root = random.Random(seed), {"root": copy.deepcopy(value)}
    for _ in range(chance.randint(1, 3)):
        path = chance.choice(places(root)[1:])
        holder: Any = root
        for key in path[:-1]:
            holder = holder[key]
        change = chance.random()
        if change < 0.6 or path == ("root",):
            holder[path[-1]] = copy.deepcopy(chance.choice(ODD))
        elif change < 0.8:
            del holder[path[-1]]
        elif isinstance(holder, dict):
            holder[chance.choice(["$set", "uuid", "event", "distinct_id", "batch"])] = copy.deepcopy(holder[path[-1]])
    return root["root"]


def outcome(receive: Callable[[], Arrival]) -> Arrival | None:
    """What was received; None where it was refused as it should be."""
    try:
        return receive()
    except DeliveryError as error:
        refused = error.message
    assert _FIELD.match(refused), refused
    return None


def check_events(events: Any, name: str) -> None:
    if isinstance(events, Ignored):
        assert events.reason
        return
    for event in enriched(events, People(), ("company",)):
        assert event.name
        assert event.distinct_id
        assert event.uuid
        shown = [dict(event.properties), dict(event.groups), event.name, event.distinct_id, event.url, name]
        json.dumps(shown, allow_nan=False, ensure_ascii=False).encode()
        assert "\0" not in repr(shown)


@given(st.sampled_from(CAPTURES), st.integers(0, 2**32))
def test_a_changed_capture_is_read_or_refused_by_the_name_of_a_field(sample: Any, seed: int) -> None:
    body = json.dumps(mutated(sample, seed)).encode()
    arrival = outcome(lambda: SOURCE.captured(decode(unpack(gzip.compress(body))), len(body), len(body)))
    if arrival is None:
        return
    again = SOURCE.parse(delivery(arrival.name, body, key=arrival.key), None, {})
    check_events(again, arrival.name)
    if arrival.parsed is not None and not isinstance(again, Ignored):
        assert SOURCE.parse(delivery(arrival.name, body, key=arrival.key), arrival.parsed, {}) == again


@given(st.sampled_from(WEBHOOKS), st.integers(0, 2**32))
def test_a_changed_webhook_is_read_or_refused_by_the_name_of_a_field(sample: Any, seed: int) -> None:
    body = json.dumps(mutated(sample, seed)).encode()
    arrival = outcome(lambda: SOURCE.receive(Incoming({}, body), {}))
    if arrival is None:
        return
    check_events(SOURCE.parse(delivery(arrival.name, body, key=arrival.key), None, {}), arrival.name)
