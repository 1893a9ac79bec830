"""What reaches Slack and a mail server of a task's report: whole, in order, and harmless."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from loops.store.database import open_database
from tests.conftest import new_sqlite
from tests.doubles.slack import TOKEN, SlackDouble, slack
from tests.integration.office import Office, email_loop, slack_loop


@pytest.fixture
async def office(tmp_path: Path, sqlite_template: Path) -> AsyncIterator[Office]:
    database = open_database(new_sqlite(sqlite_template, tmp_path))
    yield Office(database)
    await database.aclose()


@pytest.fixture
async def double() -> AsyncIterator[SlackDouble]:
    async with slack() as opened:
        yield opened


@pytest.fixture
async def to_slack(office: Office, double: SlackDouble) -> dict[str, Any]:
    """A loop that posts its report to a channel of the double."""
    return slack_loop(await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN))


# What arrives


FENCED = "\n".join(f"emoji 🎉 {number} & <tag> <!here>" for number in range(1200))
REPORT = f"# Report\n\nIt is **done**: [the change](https://example.org/x?a=1&b=2)\n\n```python\n{FENCED}\n```\n\n"
REPORT += "word " * ((40_001 - len(REPORT)) // 5)
REPORT += "x" * (40_001 - len(REPORT))


async def test_a_report_of_40001_characters_reaches_slack_whole_in_one_thread_with_its_fences_closed(
    office, double, to_slack
):
    assert len(REPORT) == 40_001
    office.reports.report = REPORT
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    assert (await office.advance(run_id))["status"] == "completed"
    posted, texts = double.posted["C1"], double.texts()
    (row,) = await office.of(run_id)
    assert row.refs == [one["ts"] for one in posted]
    assert row.parts == len(posted) > 3
    assert "thread_ts" not in posted[0]
    assert {one["thread_ts"] for one in posted[1:]} == {posted[0]["ts"]}
    assert [one["metadata"]["event_payload"]["part"] for one in posted] == list(range(len(posted)))
    assert all(text.count("```") % 2 == 0 for text in texts)
    lines = "\n".join(texts).splitlines()
    expected = [f"emoji 🎉 {number} &amp; &lt;tag&gt; &lt;!here&gt;" for number in range(1200)]
    assert [line for line in lines if line.startswith("emoji")] == expected
    assert len(re.findall(r"\bword\b", "\n".join(texts))) == REPORT.count("word ")
    assert texts[0].startswith("*Report*")
    assert "<https://example.org/x?a=1&b=2|the change>" in texts[0]


@pytest.mark.parametrize("length", [3_001, 4_001])
async def test_a_report_over_a_section_is_one_post_of_several_sections(office, double, to_slack, length: int):
    office.reports.report = "y" * length
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    (posted,) = double.posted["C1"]
    assert all(len(block["text"]["text"]) <= 3000 for block in posted["blocks"])
    assert len(posted["blocks"]) == 2
    assert double.texts()[0].count("y") == length
    assert (await office.of(run_id))[0].refs == [posted["ts"]]


@pytest.mark.parametrize(
    ("report", "arrives"),
    [
        (
            "a<b & <!here> <https://x.example?a=1&b=2|t>",
            "a&lt;b &amp; &lt;!here&gt; <https://x.example?a=1&b=2|t>",
        ),
        ("&amp; <@U1> <!channel> @here", "&amp; &lt;@U1&gt; &lt;!channel&gt; @here"),
        ("**bold** and `a < b`", "*bold* and `a &lt; b`"),
        ("[t](https://x.example/?a=1&b=2)", "<https://x.example/?a=1&b=2|t>"),
        ("- one\n- two", "• one\n• two"),
    ],
)
async def test_markdown_arrives_as_slack_writes_it_escaped_once_and_pinging_nobody(
    office, double, to_slack, report: str, arrives: str
):
    office.reports.report = report
    await office.to_its_message(to_slack)
    await office.sender.drain()
    assert double.texts() == [arrives]
    assert double.posted["C1"][0]["link_names"] is False


async def test_an_answer_in_a_thread_has_the_name_and_icon_that_the_step_gives(office, double, to_slack):
    workspace = to_slack["actions"][2]["config"]["inputs"]["slack_workspace"]["value"]
    named = {"thread_ts": "1751800000.000100", "username": "Triage", "icon_emoji": ":hedgehog:"}
    await office.to_its_message(slack_loop(str(workspace), **named))
    await office.sender.drain()
    (posted,) = double.posted["C1"]
    assert {name: posted[name] for name in named} == named


async def test_blocks_of_a_step_arrive_and_ping_nobody(office, double, to_slack):
    workspace = to_slack["actions"][2]["config"]["inputs"]["slack_workspace"]["value"]
    text = {"type": "mrkdwn", "text": "{variables.task_final_message}"}
    office.reports.report = "*done* <!channel>"
    await office.to_its_message(slack_loop(workspace, blocks=[{"type": "section", "text": text}]))
    await office.sender.drain()
    (posted,) = double.posted["C1"]
    assert posted["blocks"][0]["text"]["text"] == "*done* &lt;!channel&gt;"


# Email


@pytest.fixture
async def mail_server(tmp_path: Path) -> AsyncIterator[Any]:
    pytest.importorskip("aiosmtplib")
    pytest.importorskip("aiosmtpd")
    from tests.doubles.smtp import smtp

    async with smtp(tmp_path, security="none", password=False) as (server, _tls):
        yield server


async def mail_connection(office: Office, server: Any) -> int:
    config = {"host": "127.0.0.1", "port": str(server.port), "security": "none", "from": "Loops <loops@example.org>"}
    return await office.connect("smtp", config)


@pytest.mark.parametrize("html", ["", "<p>{{ variables.task_final_message }}</p>"])
async def test_a_report_of_40001_characters_reaches_a_mail_server_whole(office, mail_server, html: str):
    office.reports.report = REPORT
    run_id = await office.to_its_message(email_loop(await mail_connection(office, mail_server), html=html))
    await office.sender.drain()
    assert (await office.advance(run_id))["status"] == "completed"
    (mail,) = mail_server.mails
    plain = mail.get_body(("plain",))
    assert plain.get_content().replace("\r\n", "\n").rstrip("\n") == REPORT.rstrip("\n")
    assert (mail["To"], mail["From"], mail["Subject"]) == (
        "ada@example.com",
        "Loops <loops@example.org>",
        "Triage finished",
    )
    assert mail.get_content_type() == ("multipart/alternative" if html else "text/plain")
    if html:
        content = mail.get_body(("html",)).get_content()
        assert "&lt;tag&gt;" in content
        assert "<tag>" not in content
    (row,) = await office.of(run_id)
    assert row.refs == [mail["Message-ID"]]


@pytest.mark.parametrize("line", ["Hi\r\nBcc: eve@example.org", "Hi\n", "=?utf-8?q?a=0Ab?=", "a\u2028b", "a\0b"])
async def test_a_report_in_a_subject_or_name_makes_no_other_header(office, mail_server, line: str):
    office.reports.report = line
    told = "{{ variables.task_final_message }}"
    document = email_loop(
        await mail_connection(office, mail_server),
        subject=told,
        text="x",
        to={"email": "ada@example.com", "name": told},
    )
    await office.to_its_message(document)
    await office.sender.drain()
    (mail,) = mail_server.mails
    assert mail["Bcc"] is None
    assert mail_server.envelopes[0].rcpt_tos == ["ada@example.com"]
    assert len(f"{mail['Subject']}.".splitlines()) == 1


async def test_a_mail_server_that_takes_no_recipient_fails_the_step_with_its_own_words(office, mail_server):
    mail_server.refuses = {"ada@example.com": "550 no such person"}
    run_id = await office.to_its_message(email_loop(await mail_connection(office, mail_server)))
    await office.sender.drain()
    assert (await office.advance(run_id))["status"] == "failed"
    error = (await office.step(run_id))["error"]
    assert "550 no such person" in error["message"]
    assert "check the addresses" in error["hint"]


async def test_a_mail_that_may_have_been_taken_fails_the_step_and_is_left_to_a_person(office, mail_server):
    mail_server.closes_after_data = True
    run_id = await office.to_its_message(email_loop(await mail_connection(office, mail_server)))
    await office.sender.drain()
    assert office.engine.woken == []
    for _look in range(5):
        office.clock.time += timedelta(minutes=10)
        await office.sender.drain()
    assert (await office.advance(run_id))["status"] == "failed"
    step = await office.step(run_id)
    assert step["error"]["code"] == "message.uncertain"
    assert "look whether it arrived" in step["error"]["hint"]
    assert len(mail_server.envelopes) == 1
