import threading

import pytest

from notify.message import Message, Refused, SlackTarget
from notify.rendering import LARGE, rendered
from notify.slack import SlackNotifier


@pytest.mark.parametrize("size", [0, LARGE])
@pytest.mark.parametrize("error", [RecursionError("deep"), KeyError("target"), MemoryError(), ValueError("no")])
async def test_whatever_rendering_raises_refuses_the_message(size: int, error: Exception, caplog):
    def trips_up() -> str:
        raise error

    refused = await rendered(trips_up, size)
    assert isinstance(refused, Refused)
    assert refused.code == "message.unrenderable"
    assert type(error).__name__ in refused.reason
    assert refused.mend
    assert "Traceback" in caplog.text


@pytest.mark.parametrize(("size", "beside"), [(LARGE - 1, False), (LARGE, True)])
async def test_what_is_large_is_rendered_beside_the_event_loop(size: int, beside: bool):
    thread = await rendered(threading.current_thread, size)
    assert (thread is not threading.current_thread()) == beside


async def test_the_parts_of_a_message_are_made_once(monkeypatch):
    made: list[str] = []

    def noted(text: str, mentions: frozenset[str] = frozenset()) -> str:
        made.append(text)
        return text

    monkeypatch.setattr("notify.slack_blocks.to_mrkdwn", noted)
    notifier = SlackNotifier("xoxb-1")
    one, other = (Message(SlackTarget(1, "C1"), "k", text * 30_000) for text in "ab")
    assert [await notifier.parts(message) for message in (one, one, other, one)] == [3, 3, 3, 3]
    assert [text[0] for text in made] == ["a", "b", "a"]
