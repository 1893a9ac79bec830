"""Real payloads of Slack over HTTP, where the corpus is there: answered as the documentation says, and settled."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
import pytest_asyncio

from tests.integration import senders
from tests.integration.receiving import Receiving, receiving
from tests.integration.senders import DATA, Sent
from tests.integration.slack_loops import listening
from tests.unit.documentation import page, table

FILES = sorted([*DATA.glob("slack/*.json"), *DATA.glob("slack/*.form")])
REASONS = dict(table(page("reference/events.md"), "from Slack", "recorded reason"))
ENVELOPES = {"url_verification", "app_rate_limited"}
NEW = {"", "bot_message", "file_share", "me_message", "thread_broadcast"}

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not FILES, reason="the corpus of real payloads is not beside this checkout"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Receiving]:
    async with receiving(tmp_path_factory.mktemp("slack"), module_database_url) as started:
        yield started


def transports() -> dict[str, str]:
    """How Slack sends each of the files."""
    lines = (DATA / "slack" / "index.tsv").read_text("utf-8").splitlines()[1:]
    return {fields[0]: fields[7] for fields in (line.split("\t") for line in lines)}


def sent(path: str, body: bytes, transport: str) -> Sent:
    if transport == "form(payload=)":
        return senders.slack(path, urlencode({"payload": body}).encode(), form=True)
    if transport == "form" and body.startswith(b"{"):
        return senders.slack(path, urlencode(json.loads(body)).encode(), form=True)
    return senders.slack(path, body, form=transport == "form")


def documented(payload: dict[str, Any], transport: str = "json") -> tuple[int, str]:
    """The status that the documentation promises, and how the reason or refusal begins."""
    kind = str(payload.get("type") or "")
    if transport == "form(payload=)" and kind:
        return 200, REASONS["block_actions"]
    if not kind:
        return (200, "Loops has no slash commands") if payload.get("command") else (400, "type is missing")
    if kind != "event_callback":
        return 200, REASONS[kind] if kind in ENVELOPES else REASONS["hello"].replace("hello", kind)
    event = payload["event"]
    name, subtype = event["type"], event.get("subtype") or ""
    if name not in {"message", "app_mention"}:
        return 200, REASONS.get(name, REASONS["reaction_added"].replace("reaction_added", name))
    if subtype not in NEW:
        return 200, REASONS.get(subtype, REASONS["channel_topic"].replace("channel_topic", subtype))
    return (200, "an edit") if name == "app_mention" and event.get("edited") else (202, "")


async def test_every_real_payload_is_answered_as_documented_and_told_again_it_is_a_duplicate(live: Receiving) -> None:
    hook, ways = await live.connect("slack", signing_secret=senders.SECRET), transports()
    taken: set[str] = set()
    for file in FILES:
        body = file.read_bytes()
        request = sent(hook, body, ways[file.name])
        payload = json.loads(body) if file.suffix == ".json" else dict(parse_qsl(body.decode()))
        wanted, reason = documented(payload, ways[file.name])
        status, told = await live.post(request)
        if status == 400:
            assert (wanted, told["error"]["path"]) == (400, "type"), file.name
            assert told["error"]["message"].startswith(reason), file.name
            continue
        if told["status"] != "duplicate":  # of a file with the same event_id
            assert (status, told["status"]) == (wanted, "accepted" if wanted == 202 else "ignored"), file.name
            assert told["reason"].startswith(reason), (file.name, told)
            answered(file, payload, told)
        else:
            assert told["delivery"] in taken, file.name
        taken.add(told["delivery"])
        again, said = await live.post(request)
        assert (again, said["status"], said["delivery"]) == (200, "duplicate", told["delivery"]), file.name
    rows = await live.settled(*taken)
    assert len(taken) > 150
    assert {row["status"] for row in rows.values()} == {"ignored"}, "no loop is there yet"


async def test_every_real_payload_with_a_wrong_signature_is_401_and_not_stored(live: Receiving) -> None:
    hook, ways = await live.connect("slack", signing_secret="another-secret"), transports()
    requests = [sent(hook, file.read_bytes(), ways[file.name]) for file in FILES]
    before = await live.rows()
    answers = await asyncio.gather(*map(live.post, requests))
    assert {(status, told["error"]["code"]) for status, told in answers} == {(401, "delivery.signature")}
    assert await live.rows() == before


def answered(file: Path, payload: dict[str, Any], told: dict[str, Any]) -> None:
    """What its protocol asks for besides."""
    if file.name.startswith("url_verification"):
        assert told["challenge"] == payload["challenge"]
    if file.name.startswith("slash_command"):
        assert (told["response_type"], told["text"]) == ("ephemeral", told["reason"])


def afresh(file: Path) -> dict[str, Any] | None:
    """The event of a file, also of an envelope of a socket or alone, as one that was never told before."""
    payload = json.loads(file.read_bytes()) if file.suffix == ".json" else {}
    payload = payload.get("payload", payload) if file.name.startswith("socket_mode") else payload
    event = payload.get("event", payload if file.name.startswith("inner-") else None)
    if not isinstance(event, dict) or not event.get("type"):
        return None
    event = event | ({"ts": f"{uuid.uuid4().int % 10**10}.000100"} if "ts" in event else {})
    envelope = payload if "event" in payload else {}
    return envelope | {"type": "event_callback", "event_id": f"Ev{uuid.uuid4().hex}", "event": event}


def is_own(payload: dict[str, Any]) -> bool:
    """By the app or the bot that Slack names as the receiver."""
    event = payload["event"]
    app = event.get("app_id") or event.get("bot_profile", {}).get("app_id")
    bots = {one["user_id"] for one in payload.get("authorizations", []) if one.get("is_bot")}
    return (bool(app) and app == payload.get("api_app_id")) or (bool(event.get("user")) and event["user"] in bots)


async def test_every_real_message_in_its_envelope_starts_one_run_and_nothing_else_any(live: Receiving) -> None:
    hook = await live.connect("slack", signing_secret=senders.SECRET)
    told = {file: payload for file in FILES if (payload := afresh(file)) is not None}
    channels = [payload["event"].get("channel") for payload in told.values()]
    loop = listening("everywhere", "C0NONE")
    names = sorted({one for one in channels if isinstance(one, str) and one})
    loop["actions"][0]["config"]["filters"]["properties"][0]["value"] = names
    flow = await live.create(loop)

    async def check(file: Path, payload: dict[str, Any]) -> tuple[Path, str, list[str]]:
        status, answer = await live.post(senders.slack(hook, json.dumps(payload).encode()))
        wanted, reason = documented(payload)
        assert (status, answer["reason"].startswith(reason)) == (wanted, True), (file.name, answer)
        heard = payload["event"].get("channel") in names and not is_own(payload)
        return file, answer["delivery"], [flow] if status == 202 and heard else []

    checked = await asyncio.gather(*(check(file, payload) for file, payload in told.items()))
    rows = await live.settled(*(delivery for _, delivery, _ in checked))
    started = await live.started(*rows)
    for file, delivery, wanted in checked:
        status = "dispatched" if wanted else "ignored"
        assert (rows[delivery]["status"], started[delivery]) == (status, wanted), (file.name, rows[delivery]["reason"])
    assert sum(bool(wanted) for *_, wanted in checked) > 20
