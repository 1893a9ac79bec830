"""What it costs to match one event, by the number of triggers: `python -m tests.bench.match`.

Ten triggers a repository, each exact on repository, event_type and actor_access, six in ten on action too. "hot" puts
one trigger in twenty, and one event in five, into one repository. "few" repeats 200 events, so that what they touch
stays in the processor's caches; "many" runs over 5,000, so that most of it comes from memory.
"""

import gc
import random
import time
from datetime import UTC, datetime

from loops.event import Event, JsonValue
from loops.filters import compile_filter
from triggers.matcher import Index, Listener

SIZES = (10, 1_000, 10_000, 100_000)
FEW, MANY = 200, 5_000
ROUNDS = 5
EVENT_TYPES = ("issues", "issue_comment", "pull_request", "push")
ACTIONS = ("opened", "closed", "edited", "labeled", "created", "synchronize")
_RECEIVED = datetime(2026, 11, 1, tzinfo=UTC)


def trigger(rng: random.Random, repository: str) -> dict[str, JsonValue]:
    properties: list[JsonValue] = [
        {"key": "repository", "value": [repository], "operator": "exact", "type": "event"},
        {"key": "event_type", "value": [rng.choice(EVENT_TYPES)], "operator": "exact", "type": "event"},
        {"key": "actor_access", "value": ["write"], "operator": "exact", "type": "event"},
    ]
    if rng.random() < 0.6:
        properties.append({"key": "action", "value": [rng.choice(ACTIONS)], "operator": "exact"})
    if rng.random() < 0.05:
        properties.append({"key": "title", "value": ["crash"], "operator": "icontains"})
    return {"events": [{"id": "$github_event_received", "type": "events"}], "properties": properties}


def event(rng: random.Random, repository: str) -> Event:
    properties: dict[str, JsonValue] = {
        "repository": repository,
        "event_type": rng.choice(EVENT_TYPES),
        "action": rng.choice(ACTIONS),
        "actor_access": rng.choice(("write", "read")),
        "sender": "octocat",
        "bot_sender": None,
        "number": rng.randrange(9_999),
        "title": rng.choice(("A crash on start", "Typo in the docs")),
        "body": "It happens at every start. " * 20,
        "branch": None,
    }
    return Event("u", "$github_event_received", "github", "octocat", _RECEIVED, properties)


def measure(size: int, *, hot: bool) -> tuple[float, float, float, float]:
    """Microseconds to add a trigger, to match one of few events and one of many, and the matches of an event."""
    rng = random.Random(size)
    places = [f"acme/repo-{number}" for number in range(max(1, size // 10))]
    wanted = [places[0] if hot and rng.random() < 0.05 else rng.choice(places) for _ in range(size)]
    listeners = [
        Listener(f"w{number}", compile_filter(trigger(rng, place)), 0, 1, "p", "internal-event")
        for number, place in enumerate(wanted)
    ]
    index = Index()
    gc.collect()
    began = time.perf_counter()
    for listener in listeners:
        index.add(listener)
    adding = (time.perf_counter() - began) / size
    events = [event(rng, places[0] if hot and rng.random() < 0.2 else rng.choice(places)) for _ in range(MANY)]
    matched = sum(len(index.match("p", one).passed) for one in events) / MANY
    few, many = (min(_round(index, events[:count]) for _ in range(ROUNDS)) for count in (FEW, MANY))
    return adding * 1e6, few * 1e6, many * 1e6, matched


def _round(index: Index, events: list[Event]) -> float:
    began = time.perf_counter()
    for one in events:
        index.match("p", one)
    return (time.perf_counter() - began) / len(events)


def main() -> None:
    print(f"{'triggers':>9} {'':4} {'add µs':>8} {'few µs':>8} {'many µs':>8} {'matches an event':>17}")
    for hot in (False, True):
        for size in SIZES:
            adding, few, many, matched = measure(size, hot=hot)
            print(f"{size:>9} {'hot' if hot else '':4} {adding:>8.2f} {few:>8.2f} {many:>8.2f} {matched:>17.2f}")


if __name__ == "__main__":
    main()
