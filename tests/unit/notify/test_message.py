import json
import re

import pytest

from loops.event import JsonValue
from notify.message import Address, EmailTarget, Message, Outgoing, PageTarget, SlackTarget, Target
from tests.unit.notify.instants import NOW

TARGETS: list[Target] = [
    SlackTarget(1, "C1"),
    SlackTarget(None, "#general", "1.2", "Loops", ":hedgehog:"),
    EmailTarget(2, (Address("a@b.org", "A"), Address("c@d.org"))),
    EmailTarget(None, (), Address("e@f.org", "E")),
    PageTarget(),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
def test_a_message_is_read_as_it_was_stored(target: Target):
    message = Message(
        target,
        "key",
        "text",
        "plain",
        "<p>html</p>",
        "subject",
        ({"type": "divider"},),
        frozenset({"<@U1>", "<!here>"}),
    )
    assert Message.from_json(json.loads(json.dumps(message.as_json()))) == message


def test_what_people_read_is_masked_and_the_rest_is_not():
    blocks: list[JsonValue] = [{"type": "section", "text": {"type": "mrkdwn", "text": "s3cret"}, "n": 1}]
    message = Message(SlackTarget(1, "s3cret"), "s3cret", "a s3cret", html="s3cret", subject="s3cret", blocks=blocks)
    masked = message.masked(lambda text: re.sub("s3cret", "***", text))
    assert (masked.text, masked.html, masked.subject) == ("a ***", "***", "***")
    assert masked.blocks == ({"type": "section", "text": {"type": "mrkdwn", "text": "***"}, "n": 1},)
    assert (masked.target, masked.key) == (message.target, message.key)


def test_the_next_part_follows_the_parts_that_are_there():
    message = Message(PageTarget(), "key")
    assert [Outgoing("0a", message, NOW, refs).part for refs in ((), ("1", "2"))] == [0, 2]
