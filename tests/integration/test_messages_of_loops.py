"""The outbox and the alerts by API and command line: what was sent, what was not, sending it again, and where failures
are told."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from loops.runs.alerting import Alerting, RunEnd
from loops.store import alerts as store
from loops.store import outbox
from loops.store.database import DEFAULT_PROJECT
from loops.store.ids import new_id
from notify.message import Message
from server.cli import main
from tests.doubles.messages import TO_ADA, stored
from tests.doubles.site import Site, open_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as site:
        assert [await site.connection("team", kind=kind) for kind in ("slack", "smtp")] == [1, 2]
        yield site


def mail() -> Message:
    return Message(TO_ADA, new_id(), "All is well", subject="Triage")


class Ada:
    """An editor, who asks the API and types commands."""

    def __init__(self, site: Site, token: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.site, self.token, self.capsys = site, token, capsys
        self.url = str(site.client.make_url("/")).rstrip("/")

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        target, headers = f"/api/projects/{DEFAULT_PROJECT}/{path}", {"Authorization": f"Bearer {self.token}"}
        async with self.site.client.request(method, target, headers=headers, json=body) as answer:
            return answer.status, await answer.json()

    async def types(self, *arguments: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, [*arguments, "--url", self.url])
        return (code, *self.capsys.readouterr())


@pytest.fixture
async def ada(site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ada:
    token = await site.token("editor")
    monkeypatch.setenv("LOOPS_TOKEN", token)
    return Ada(site, token, capsys)


async def test_messages_are_listed_shown_and_sent_again_from_the_command_line(site, ada):
    writer, now = site.services.writer, site.clock.now()
    uncertain = await stored(
        writer, now, "uncertain", message=mail(), reason="the server was lost", mend="look yourself"
    )
    await stored(writer, now, "sent")
    _, listed, _ = await ada.types("outbox", "list", "--status", "uncertain")
    assert [line.split()[-1] for line in listed.splitlines()[1:]] == [uncertain]
    code, shown, _ = await ada.types("outbox", "show", uncertain)
    assert code == 0
    assert shown.splitlines()[:2] == [
        "email to ada@example.org: uncertain, the server was lost",
        "hint: look yourself",
    ]
    assert "All is well" in shown
    code, told, _ = await ada.types("outbox", "resend", uncertain, "--json")
    assert (code, json.loads(told)["status"]) == (0, "pending")
    code, _, complaint = await ada.types("outbox", "resend", uncertain)
    assert (code, "nothing to send again" in complaint) == (1, True)


async def test_a_message_is_sent_again_over_a_connection_that_is_named(site, ada):
    other = await site.connection("other", kind="smtp")
    message = await stored(site.services.writer, site.clock.now(), "refused", message=mail())
    code, told, _ = await ada.types("outbox", "resend", message, "--over", str(other), "--json")
    assert (code, json.loads(told)["connection"]) == (0, str(other))


async def failed(site: Site, name: str) -> str:
    row = await site.workflow(name=name)
    run_id = await site.run(row)
    alerting = Alerting(site.services.messages, site.clock)
    end = RunEnd(DEFAULT_PROJECT, row.id, run_id, "failed", "log: it broke")
    await site.services.writer.run(lambda connection: alerting.run_over(connection, end))
    return run_id


async def test_the_loops_that_fail_are_listed_with_their_last_run(site, ada):
    assert await ada.call("GET", "alerts") == (200, {"target": None, "failing": []})
    run_id = await failed(site, "Triage")
    _, told = await ada.call("GET", "alerts")
    (one,) = told["failing"]
    assert (one["workflow_name"], one["failures"], one["untold"], one["run"]) == ("Triage", 1, 0, run_id)
    assert one["reason"] == "log: it broke"
    code, printed, _ = await ada.types("alerts", "list")
    assert code == 0
    assert "Triage" in printed
    assert "each loop tells its failures to whom it tells its result" in printed


@pytest.mark.parametrize(
    ("arguments", "stored_as", "words"),
    [
        (
            ["slack", "C1|#ops", "--over", "1"],
            {"kind": "slack", "connection": 1, "to": "C1"},
            "to C1, over connection 1",
        ),
        (
            ["email", "ops@example.org", "--over", "2"],
            {"kind": "email", "connection": 2, "to": "ops@example.org"},
            "ops@",
        ),
        (["page"], {"kind": "page", "connection": None, "to": ""}, "page /outbox alone"),
        (["loops"], None, "each loop"),
    ],
)
async def test_where_failures_are_told_is_said_once_for_the_project(site, ada, arguments, stored_as, words: str):
    code, printed, complaint = await ada.types("alerts", "to", *arguments)
    assert (code, complaint) == (0, "")
    assert words in printed
    assert await site.services.reader.read(lambda connection: store.target(connection, DEFAULT_PROJECT)) == stored_as
    _, told = await ada.call("GET", "alerts")
    assert (told["target"] or {}).get("kind") == (stored_as or {}).get("kind")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, ""),
        ({"target": {"kind": "pigeon"}}, "target.kind"),
        ({"target": "C1"}, "target.kind"),
        ({"target": {"kind": "slack", "connection": 1}}, "target.to"),
        ({"target": {"kind": "slack", "connection": 1, "to": "no channel"}}, "target.to"),
        ({"target": {"kind": "email", "connection": 2, "to": "nobody"}}, "target.to"),
        ({"target": {"kind": "slack", "connection": 2, "to": "C1"}}, "target.connection"),
        ({"target": {"kind": "slack", "to": "C1"}}, "target.connection"),
        ({"target": {"kind": "slack", "connection": 1, "to": "C1", "thread": "1.2"}}, "target"),
    ],
)
async def test_a_place_that_nothing_could_be_told_at_is_refused(ada, body: dict[str, Any], path: str):
    status, told = await ada.call("PUT", "alerts", body)
    assert (status, told["error"].get("path", "")) == (400, path)
    assert told["error"]["hint"]


async def test_a_notice_has_a_page_that_leads_to_its_run(site: Site) -> None:
    run_id = await failed(site, "Triage")
    await site.sign_in()
    (row,) = await site.services.reader.read(lambda connection: outbox.listed(connection, DEFAULT_PROJECT))
    page = (await site.get(f"/outbox/{row.id}")).text
    assert f'<a href="/runs/{run_id}">a run of <bdi>Triage</bdi></a>, a notice of how it goes' in page
    assert "log: it broke" in page
