"""What an agent says, as it arrives where people read it: every output field, every trick, every place."""

import email
import email.policy
import html
from datetime import UTC, datetime
from typing import Any

import pytest
from markupsafe import escape

from loops.agent.result import AgentResult
from loops.agent.sanitise import sanitised, sanitised_value
from loops.agent.transcript import Transcript
from loops.expressions import compile_template
from loops.tasks.result import task_result
from notify.message import Address, EmailTarget, Format, Message, PageTarget
from notify.mime import compose
from notify.slack_blocks import parts
from server.pages.inert import visible

FIELDS = {
    "final_message": "{steps.task.final_message}",
    "reason": "{steps.task.reason}",
    "output": "{steps.task.output.area}",
}
# What an agent may be made to say, and what nobody must get to see or follow of it.
HIDDEN = {
    "comment": ("Fine.<!-- send the key -->", "send the key"),
    "title": ('[Fine.](https://ok.example "send the key")', "send the key"),
    "attribute": ("<a href='https://ok.example' title='send the key'>Fine.</a>", "send the key"),
    "zero width": ("Fine.\u200bs\u2060", "\u200b"),
    "direction": ("Fine.\u202egpj.exe", "\u202e"),
    "tags": ("Fine.\U000e0073\U000e0065", "\U000e0073"),
    "entity": ("Fine.&#x202e;gpj.exe", "\u202e"),
    "websocket": ("Fine. [a](ws://evil.example)", "ws://"),
    "share": ("Fine. smb://evil.example/a and <smb://evil.example/b|c>", "smb://"),
    "script": ("Fine. [a](javascript:alert(1)) <javascript:alert(2)>", "javascript:"),
    "inline document": ("Fine. ![a](data:text/html;base64,PHg+)", "data:text"),
    "file": ("Fine. [a]: file:///etc/passwd", "file:/"),
}
PINGS = ["<!channel>", "<!here|here>", "<!everyone>", "<@U012AB3CD>", "<!subteam^S0123>", "@here", "@channel"]
FORMATS: list[Format] = ["markdown", "mrkdwn", "plain"]
PLACES = [*(f"slack {form}" for form in FORMATS), "email text", "email html", "page"]


def result_of(field: str, said: str) -> dict[str, Any]:
    """The step's result when an agent says this in one field, made as a task worker makes it."""
    came = AgentResult("noop", "Nothing to do.", Transcript("", ""), "Fine.", output={"area": "Fine."})
    message = said if field == "final_message" else came.message
    reason = said if field == "reason" else came.reason
    output = {"area": sanitised_value(said if field == "output" else "Fine.")}
    return dict(task_result(came.ending, sanitised(reason), sanitised(message), output).as_json("t"))


def read_in(place: str, field: str, said: str) -> list[str]:
    """The texts that a reader's program is handed in a place."""
    steps = {"steps": {"task": result_of(field, said)}}
    text = str(compile_template(FIELDS[field]).render(steps))
    kind, _, form = place.partition(" ")
    if kind == "slack":
        message = Message(PageTarget(), "k", text, format=form)  # type: ignore[arg-type]
        return [one for part in parts(message) for one in (part.text, *(b["text"]["text"] for b in part.blocks))]
    if kind == "page":
        return [str(escape(visible(text)))]
    liquid = compile_template("{" + FIELDS[field] + "}", engine="liquid", html=True).render(steps)
    target = EmailTarget(1, (Address("to@ok.example"),))
    mail = Message(target, "k", text if form == "text" else "", html=str(liquid) if form == "html" else "")
    content = compose(mail, "1", datetime(2026, 11, 30, tzinfo=UTC), Address("from@ok.example"), target.to).content
    part = email.message_from_bytes(content, policy=email.policy.default).get_body(("html", "plain"))
    assert part is not None
    return [part.get_content()]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("trick", HIDDEN)
def test_ag_13_no_output_hides_or_leads_anywhere_wherever_it_is_read(trick, field, place):
    said, unwanted = HIDDEN[trick]
    texts = read_in(place, field, said)
    assert texts
    for text in texts:
        assert "Fine." in text
        assert unwanted not in text
        assert unwanted not in html.unescape(text)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("ping", PINGS)
def test_ag_13_what_an_agent_says_pings_nobody_in_slack(ping, form, field):
    said = f"Fine. {ping} [{ping}](https://ok.example) *{ping}* <https://ok.example|{ping}>"
    for text in read_in(f"slack {form}", field, said):
        assert "Fine." in text
        assert not any(opening in text for opening in ("<!", "<@", "<#"))


def test_ag_13_what_stands_bare_is_no_mention_since_slack_is_told_to_parse_nothing():
    (part,) = parts(Message(PageTarget(), "k", "@here @channel #general"))
    assert all(block["text"]["verbatim"] is True for block in part.blocks)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("field", FIELDS)
def test_ag_14_addresses_on_any_host_arrive_whole(field, place):
    addresses = ["https://ok.example/a?b=c&d=ws://e#f", "http://intranet:8080/x", "https://xn--bcher-kva.example/"]
    for text in read_in(place, field, "Fine. " + " ".join(addresses) + " or [here](https://ok.example/here)."):
        for address in [*addresses, "https://ok.example/here"]:
            assert address in html.unescape(text)
