"""What PostHog and its SDKs really sent, where the corpus is there: answered as documented, each event a run."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from server.app import Wiring
from tests.integration.receiving import Receiving, receiving
from tests.integration.senders import DATA, Sent
from tests.integration.serving import workflow
from triggers.posthog import PostHogSource
from triggers.registry import SOURCES

CORPUS = DATA / "posthog"
RECORDED = sorted(CORPUS.glob("raw/*.headers.json"))
COMPOSED = [file for file in sorted(CORPUS.glob("webhook_*.json")) if not file.name.endswith(".headers.json")]
SIGNED_AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
"""When the signed sample was, by its header."""

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not RECORDED, reason="the corpus of real payloads is not beside this checkout"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Receiving]:
    wiring = Wiring(sources={**SOURCES, "posthog": PostHogSource(lambda: SIGNED_AT)})
    async with receiving(tmp_path_factory.mktemp("posthog"), module_database_url, wiring) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def live(service: Receiving) -> Receiving:
    """A project of the test's own, with a loop that every event starts."""
    own = await service.elsewhere()
    filters = {"events": [{"id": None, "type": "events"}]}
    await own.create(workflow("everything", {"type": "event", "filters": filters, "allow_unverified": True}))
    return own


def told() -> dict[str, list[str]]:
    """The names of the events in each file, as the corpus says."""
    lines = (CORPUS / "index.tsv").read_text("utf-8").splitlines()[1:]
    return {fields[0]: fields[2].split("+") for fields in (line.split("\t") for line in lines)}


def recorded(file: Path) -> Sent:
    kept = json.loads(file.read_text("utf-8"))
    headers = {name: value for name, value in kept["headers"] if name not in {"Host", "Content-Length", "Connection"}}
    body = file.with_name(file.name.replace(".headers.json", ".body")).read_bytes()
    return Sent("capture", kept["path_qs"], headers, body)


async def test_every_recorded_request_of_an_sdk_is_answered_and_each_of_its_events_starts_one_run(
    live: Receiving,
) -> None:
    names, begun = told(), 0
    captures = [file for file in RECORDED if "/flags/" not in recorded(file).path]
    assert {(await live.post(recorded(file)))[0] for file in captures} == {401}, "nobody has their key yet"
    await live.connect("posthog", api_key="phc_test")
    for file in captures:
        before = await live.rows()
        await answered(live, file, {"status": 1})
        new = [row for key, row in (await live.settled()).items() if key not in before]
        wanted = [] if "histmig" in file.name else names[f"raw/{file.name.replace('.headers.json', '.body')}"]
        begun += await started(live, file, new, wanted)
    assert begun > 30


async def test_every_recorded_request_for_flags_is_told_of_none(live: Receiving) -> None:
    files = [file for file in RECORDED if "/flags/" in recorded(file).path]
    assert files
    for file in files:
        await answered(live, file, {"flags": {}, "featureFlags": {}, "errorsWhileComputingFlags": False})
    assert await live.rows() == {}


async def answered(live: Receiving, file: Path, wanted: Mapping[str, Any]) -> None:
    """As it was sent, without the prefix of a proxy, and without the last slash of the path: each time the same."""
    sent = recorded(file)
    place, mark, query = sent.path.partition("?")
    for path in (place, place.removeprefix("/ingest"), place.rstrip("/")):
        status, answer = await live.post(replace(sent, path=f"{path}{mark}{query}"))
        assert (status, {key: answer.get(key) for key in wanted}) == (200, wanted), (file.name, path)


async def started(live: Receiving, file: Path, new: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> int:
    """How many runs: one for each event of the one delivery that a file brought."""
    if not new:  # what an SDK sends once more is the same batch
        assert "retry" in file.name, file.name
        return 0
    (row,) = new
    runs = (await live.started(row["id"]))[row["id"]]
    assert (row["verified"], len(runs)) == (False, len(wanted)), (file.name, row["reason"])
    assert row["status"] == ("dispatched" if wanted else "ignored"), file.name
    assert wanted or "historical migration" in row["reason"], file.name
    return len(runs)


async def test_every_webhook_body_is_taken_and_starts_one_run(live: Receiving) -> None:
    hook, names = await live.connect("posthog", api_key="phc_of_webhooks"), told()
    seen: set[str] = set()
    for file in COMPOSED:
        body = file.read_bytes()
        event = json.loads(body).get("event")
        own = event.get("uuid") if isinstance(event, dict) else None
        status, answer = await live.post(Sent("posthog", hook, {"Content-Type": "application/json"}, body))
        if own is not None and own in seen:
            assert (status, answer["status"]) == (200, "duplicate"), file.name
            continue
        seen.add(str(own))
        assert (status, answer["status"]) == (202, "accepted"), (file.name, answer)
        (row,) = (await live.settled(answer["delivery"])).values()
        (name,) = names[file.name]
        assert row["name"] == f"webhook {'$webhook_received' if name == '-' else name}"
        runs = (await live.started(row["id"]))[row["id"]]
        assert (row["status"], row["verified"], len(runs)) == ("dispatched", False, 1), (file.name, row["reason"])
    assert len(seen) > 10


async def test_the_signed_webhook_is_verified_once_and_refused_when_a_byte_is_changed(live: Receiving) -> None:
    body = (CORPUS / "webhook_signed__standard_webhooks.body").read_bytes()
    kept = json.loads((CORPUS / "webhook_signed__standard_webhooks.headers.json").read_text("utf-8"))
    hook = await live.connect("posthog", webhook_secret=kept["secret"])
    assert kept["headers"]["webhook-timestamp"] == str(int(SIGNED_AT.timestamp()))
    status, answer = await live.post(Sent("posthog", hook, kept["headers"], body))
    assert (status, answer["status"]) == (202, "accepted")
    (row,) = (await live.settled(answer["delivery"])).values()
    assert (row["status"], row["verified"], row["key"]) == ("dispatched", True, kept["headers"]["webhook-id"])
    status, again = await live.post(Sent("posthog", hook, kept["headers"], body))
    assert (status, again["status"], again["delivery"]) == (200, "duplicate", answer["delivery"])
    for changed in (body.replace(b"page", b"paqe"), body + b" "):
        status, refused = await live.post(Sent("posthog", hook, kept["headers"], changed))
        assert (status, refused["error"]["code"]) == (401, "delivery.signature")
