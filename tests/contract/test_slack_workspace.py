"""The channels of a workspace: read page by page, kept for a while, and with the patience that Slack asks for."""

from collections.abc import AsyncIterator

import pytest

from loops.connections.slack_channels import LISTED_SECONDS, MEMBER_SECONDS, SlackWorkspace
from loops.connections.sparing import LOOKS, REFUSED_SECONDS
from loops.errors import ExternalError
from tests.doubles.slack import TOKEN, SlackDouble, slack


class Time:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
async def double() -> AsyncIterator[SlackDouble]:
    async with slack() as opened:
        opened.infos["C3"] = {"is_member": True, "is_private": True}
        opened.names["C3"] = "board"
        yield opened


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def workspace(double: SlackDouble, time: Time) -> SlackWorkspace:
    return SlackWorkspace(TOKEN, double.url, seconds=2, clock=time, sleep=time.sleep)


def called(double: SlackDouble, method: str) -> int:
    return sum(name == method for name, _asked in double.calls)


async def test_every_page_is_read_in_order_of_names_and_kept_for_a_minute(workspace, double, time):
    double.page = 1
    found = await workspace.channels()
    assert [(one.name, one.is_member, one.is_private) for one in found] == [
        ("alerts", False, False),
        ("board", True, True),
        ("general", True, False),
    ]
    assert called(double, "conversations.list") == 3
    assert all(int(asked["limit"]) < 1000 for name, asked in double.calls if name == "conversations.list")
    double.names["C4"] = "new"
    assert len(await workspace.channels()) == 3
    time.now += LISTED_SECONDS
    assert len(await workspace.channels()) == 4


async def test_a_short_wait_that_slack_asks_for_is_kept_and_the_list_is_whole(workspace, double, time):
    double.page = 1
    double.list_faults = [None, {"after": 7, "error": "ratelimited"}]
    assert len(await workspace.channels()) == 3
    assert time.slept == [7.0]


async def test_a_long_wait_is_told_and_nobody_asks_before_it_is_over(workspace, double, time):
    double.list_faults = [{"after": 90, "error": "ratelimited"}]
    for _again in range(2):
        with pytest.raises(ExternalError, match="ratelimited") as caught:
            await workspace.channels()
        assert caught.value.hint == "ask again in 90 seconds"
    assert (called(double, "conversations.list"), time.slept) == (1, [])
    time.now += 91
    assert len(await workspace.channels()) == 3


async def test_without_the_scope_for_private_channels_the_public_ones_are_listed(workspace, double):
    double.list_faults = [{"error": "missing_scope", "needed": "groups:read", "provided": "channels:read"}]
    assert [one.name for one in await workspace.channels()] == ["alerts", "general"]


async def test_a_list_that_the_token_may_not_read_is_told_with_what_it_needs_and_has(workspace, double):
    double.list_faults = [{"error": "missing_scope", "needed": "channels:read", "provided": "chat:write"}]
    with pytest.raises(ExternalError, match="needed channels:read, provided chat:write") as caught:
        await workspace.channels()
    assert "channels:read" in caught.value.hint
    assert "install the app anew" in caught.value.hint


async def test_that_the_app_is_in_a_channel_is_kept_and_that_it_is_not_is_asked_anew(workspace, double, time):
    assert await workspace.obstacle("C1") is None
    assert await workspace.obstacle("C1") is None
    assert called(double, "conversations.info") == 1
    time.now += MEMBER_SECONDS
    double.infos["C1"] = {"is_member": False}
    for _again in range(2):
        found = await workspace.obstacle("C1")
        assert found is not None
        assert (found.code, found.channel, found.app) == ("not_in_channel", "#general (C1)", "loops")
    double.infos["C1"] = {"is_member": True}
    assert await workspace.obstacle("C1") is None


async def test_what_slack_refused_is_not_asked_for_again_within_a_minute(workspace, double, time):
    double.list_faults = [{"error": "missing_scope", "needed": "channels:read", "provided": "chat:write"}]
    for _again in range(3):
        with pytest.raises(ExternalError, match="channels:read"):
            await workspace.channels()
        time.now += REFUSED_SECONDS / 4
    assert called(double, "conversations.list") == 1
    time.now += REFUSED_SECONDS
    assert len(await workspace.channels()) == 3


async def test_whoever_only_wants_to_know_sees_at_once_what_was_mended_and_what_is_known_when_he_has_asked_too_often(
    workspace, double, time
):
    double.infos["C1"] = {"is_member": False}
    found = await workspace.likely_obstacle("C1")
    assert found is not None
    double.infos["C1"] = {"is_member": True}
    assert await workspace.likely_obstacle("C1") is None
    refused = [await workspace.likely_obstacle("C0NOWHERE") for _again in range(LOOKS + 5)]
    assert [one and one.code for one in refused] == ["channel_not_found"] * (LOOKS + 5)
    assert called(double, "conversations.info") == LOOKS
    time.now += REFUSED_SECONDS
    assert await workspace.likely_obstacle("C0NOWHERE") is not None
    assert called(double, "conversations.info") == LOOKS + 1


async def test_slack_is_looked_at_so_often_a_minute_and_no_more_than_that(workspace, double, time):
    found = [await workspace.likely_obstacle(f"C0NO{number}") for number in range(LOOKS + 5)]
    assert [one is None for one in found] == [False] * LOOKS + [True] * 5
    assert called(double, "conversations.info") == LOOKS
    assert await workspace.obstacle("C0NOWHERE") is not None  # who posts is not held up by that
    time.now += 60
    assert await workspace.likely_obstacle("C0NOMORE") is not None


async def test_a_channel_by_its_name_is_looked_for_only_where_that_is_asked_for(workspace, double):
    assert await workspace.obstacle("#alerts") is None
    assert double.calls == []
    found = [await workspace.obstacle(name, by_name=True) for name in ("#general", "#alerts", "#nowhere")]
    assert [one and (one.code, one.channel) for one in found] == [
        None,
        ("not_in_channel", "#alerts (C2)"),
        ("channel_not_found", "#nowhere"),
    ]


@pytest.mark.parametrize("channel", ["U0ADA", "D0ADA", ""])
async def test_a_person_needs_no_invitation(workspace, double, channel: str):
    assert await workspace.obstacle(channel, by_name=True) is None
    assert double.calls == []
