import json
from typing import Any

import pytest
import zstandard

from loops.store.deliveries import Brief
from server.happening import happening, run_happening


def brief(source: str, name: str, subject: str | None, body: Any = None) -> Brief:
    packed = None if body is None else zstandard.ZstdCompressor().compress(json.dumps(body).encode())
    return Brief("id", source, name, subject, packed)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (brief("github", "issues", "77#42", {"action": "opened", "issue": {"number": 42}}), "issues opened #42"),
        (brief("github", "issues", "77#42"), "issues #42"),
        (brief("github", "push", "77@refs/heads/main", {"ref": "refs/heads/main"}), "push main"),
        (brief("github", "push", "77@refs/heads/fix/#1@2"), "push fix/#1@2"),
        (brief("github", "push", "77@refs/tags/v1"), "push v1"),
        (brief("github", "ping", None, {"zen": "x"}), "ping"),
        (brief("github", "star", "77", {"action": "created"}), "star created"),
        (brief("github", "issues", "77#42", {"action": 5}), "issues #42"),
        (brief("github", "issues", "77#42", [1]), "issues #42"),
        (Brief("id", "github", "issues", "77#42", b"damaged"), "issues #42"),
        (brief("slack", "event_callback", None, {"event": {"type": "message", "channel": "C012"}}), "message in C012"),
        (brief("slack", "event_callback", None, {"event": {"type": "team_join"}}), "team_join"),
        (brief("slack", "event_callback", None), "event_callback"),
        (brief("posthog", "$pageview", None, {"action": "x"}), "$pageview"),
    ],
)
def test_what_happened_is_told_as_far_as_it_is_known(told: Brief, words: str) -> None:
    assert happening(told) == words


def test_words_that_a_sender_made_long_are_cut() -> None:
    assert len(happening(brief("github", "issues", "77#42", {"action": "x" * 500}))) == 80


def test_a_run_is_told_by_its_delivery_or_else_by_its_event() -> None:
    run = {"event_name": "$github_event_received", "delivery_id": "d"}
    assert run_happening(run, {"d": "issues opened #42"}) == "issues opened #42"
    assert run_happening(run, {}) == "GitHub"
    assert run_happening({"event_name": "$scheduled", "delivery_id": None}, {}) == "its schedule"
    assert run_happening({"event_name": "signed up", "delivery_id": None}, {}) == "signed up"
    of_batch = {"event_name": "signed up", "delivery_id": "d", "source": "posthog"}
    assert run_happening(of_batch, {"d": "capture signed up, left"}) == "signed up"
