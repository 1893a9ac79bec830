"""Slack: posts part by part where the app may post, and reads a channel back to settle what is uncertain."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from loops.connections.slack import SECONDS, SLACK_API, SlackClient, slack_client
from loops.connections.slack_answer import CHANNEL_WORDS, Answer
from loops.connections.slack_channels import Obstacle, SlackWorkspace
from loops.errors import ExternalError, Unreached
from notify.message import (
    Absent,
    Message,
    Outcome,
    Outgoing,
    Refused,
    Retry,
    Sent,
    Settlement,
    SlackTarget,
    Uncertain,
    Unsettled,
)
from notify.rendering import rendered
from notify.slack_blocks import Part, faults, parts
from notify.slack_errors import outcome_of, refusal

EVENT_TYPE = "loops_message"
_PAGE = 200
_MOST_PAGES = 10
# Slack's clock and ours may differ: what was posted a little before the attempt is looked at too.
_CLOCKS = timedelta(minutes=2)
_WRITES = frozenset({"chat.postMessage", "conversations.open"})
_IDS = "CDG"
# Whether a channel is there is told by posting to it: not every token sees all that it may post to.
_NOT_SEEN = "channel_not_found"
_LIMITED = 429
_SERVER = 500


class SlackNotifier:
    """One workspace's bot. `base_url` is for Slack's doubles and proxies."""

    def __init__(self, token: str, *, base_url: str = SLACK_API, seconds: float = SECONDS) -> None:
        self._token = token
        self._base_url = base_url
        self._seconds = seconds
        self._workspace = SlackWorkspace(token, base_url, seconds=seconds)
        self._made: tuple[Message, tuple[Part, ...]] | None = None

    async def parts(self, message: Message) -> int | Refused:
        """See Notifier.parts."""
        made = await self._parts(message)
        return made if isinstance(made, Refused) else max(1, len(made))

    async def _parts(self, message: Message) -> tuple[Part, ...] | Refused:
        """Made once a message: its parts are sent one after the other, and no other message between them."""
        if self._made is not None and self._made[0] is message:
            return self._made[1]
        made = await rendered(lambda: parts(message), message.size)
        if not isinstance(made, Refused):
            self._made = (message, made)
        return made

    async def send(self, outgoing: Outgoing) -> Outcome:
        """See Notifier.send. Parts after the first go into the thread of the first, unless the message is in one."""
        target = outgoing.message.target
        if not isinstance(target, SlackTarget):
            raise TypeError(f"Slack cannot send to {target!r}")
        fault = faults(outgoing.message.blocks)
        if fault:
            return Refused("invalid_blocks", fault, "hold the blocks against Slack's Block Kit Builder")
        made = await self._parts(outgoing.message)
        if isinstance(made, Refused):
            return made
        if outgoing.part >= len(made):
            return Refused("no_text", "the message is empty", "give it a text")
        obstacle = None if outgoing.refs else await self._workspace.obstacle(target.channel)
        if obstacle is not None and obstacle.code != _NOT_SEEN:
            return _refused(obstacle)
        asked = _request(outgoing, target, made[outgoing.part].with_whole_at(outgoing.page))
        outcome = await self._post(asked, target.channel)
        plain = {name: value for name, value in asked.items() if name not in {"username", "icon_emoji"}}
        if isinstance(outcome, Refused) and outcome.code == "missing_scope" and plain != asked:
            # Slack has posted nothing: without a name and icon of its own is better than not at all.
            return await self._post(plain, target.channel)
        return outcome

    async def _post(self, asked: Mapping[str, Any], channel: str) -> Outcome:
        try:
            async with slack_client(self._token, self._base_url, seconds=self._seconds) as client:
                answer = await _call(client, "chat.postMessage", asked)
        except Unreached as error:
            if not error.sent:
                return Retry(f"Slack cannot be reached: {error.reason}")
            return Uncertain(f"the connection to Slack was lost while it took the message: {error.reason}")
        if answer.ok:
            return Sent(str(answer.body.get("ts") or ""))
        if answer.code in CHANNEL_WORDS:
            self._workspace.forget(channel)
            return refusal(answer, channel, await self._workspace.app_name())
        return outcome_of(answer, channel)

    async def settle(self, outgoing: Outgoing) -> Settlement:
        """See Notifier.settle: reads what was posted since the attempt began, and looks for our mark."""
        target = outgoing.message.target
        if not isinstance(target, SlackTarget) or outgoing.began_at is None:
            raise TypeError(f"there is nothing to settle in {outgoing!r}")
        try:
            async with slack_client(self._token, self._base_url, seconds=self._seconds) as client:
                channel = await self._channel_id(client, target.channel)
                if isinstance(channel, Unsettled):
                    return channel
                return await self._look(client, channel, outgoing, outgoing.began_at)
        except Unreached as error:
            return Unsettled(f"Slack cannot be reached to look for the message: {error.reason}", again=True)

    async def _look(self, client: SlackClient, channel: str, outgoing: Outgoing, since: datetime) -> Settlement:
        thread = _thread(outgoing)
        method = "conversations.replies" if thread else "conversations.history"
        asked: dict[str, Any] = {
            "channel": channel,
            "oldest": f"{(since - _CLOCKS).timestamp():.6f}",
            "limit": _PAGE,
            "include_all_metadata": True,
        }
        if thread:
            asked["ts"] = thread
        for _page in range(_MOST_PAGES):
            answer = await _call(client, method, asked)
            if not answer.ok:
                return _unread(answer, target=channel)
            for posted in answer.body.get("messages") or []:
                if _is_ours(posted, outgoing):
                    return Sent(str(posted.get("ts") or ""))
            cursor = (answer.body.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                return Absent()
            asked["cursor"] = cursor
        return Unsettled(
            f"more than {_PAGE * _MOST_PAGES} messages were posted since: the message was not found in them"
        )

    async def _channel_id(self, client: SlackClient, channel: str) -> str | Unsettled:
        if channel[:1] in _IDS and channel.isalnum() and channel.isupper():
            return channel
        if channel[:1] in "UW" and channel.isalnum() and channel.isupper():
            answer = await _call(client, "conversations.open", {"users": channel})
            if not answer.ok:
                return _unread(answer, target=channel)
            return str((answer.body.get("channel") or {}).get("id") or "")
        return await self._named(channel.removeprefix("#"))

    async def _named(self, name: str) -> str | Unsettled:
        try:
            listed = await self._workspace.channels()
        except ExternalError as error:
            return Unsettled(f"Slack does not tell the channels now: {error.message}", again=True)
        found = next((one.id for one in listed if one.name == name), None)
        return found or Unsettled(f"there is no channel named #{name} to look for the message in; name channels by id")


async def _call(client: SlackClient, method: str, asked: Mapping[str, Any]) -> Answer:
    return await client.call(method, asked, form="json" if method in _WRITES else "query")


def _request(outgoing: Outgoing, target: SlackTarget, part: Part) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "channel": target.channel,
        "text": part.text,
        "blocks": list(part.blocks),
        "metadata": {
            "event_type": EVENT_TYPE,
            "event_payload": {"outbox_id": outgoing.id, "part": outgoing.part},
        },
        "parse": "none",
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
    }
    chosen = {"thread_ts": _thread(outgoing), "username": target.username, "icon_emoji": target.icon_emoji}
    return asked | {name: value for name, value in chosen.items() if value}


def _thread(outgoing: Outgoing) -> str:
    target = outgoing.message.target
    given = target.thread if isinstance(target, SlackTarget) else ""
    return given or (outgoing.refs[0] if outgoing.refs else "")


def _is_ours(posted: Any, outgoing: Outgoing) -> bool:  # noqa: ANN401 - foreign JSON
    metadata = posted.get("metadata") if isinstance(posted, dict) else None
    payload = metadata.get("event_payload") if isinstance(metadata, dict) else None
    if not isinstance(payload, dict):
        return False
    # A person may copy the mark of another message into one of their own only with an app; its author is an app too.
    return payload.get("outbox_id") == outgoing.id and payload.get("part") == outgoing.part


def _refused(obstacle: Obstacle) -> Refused:
    return refusal(Answer(200, {}, {"error": obstacle.code}), obstacle.channel, obstacle.app)


def _unread(answer: Answer, *, target: str) -> Unsettled:
    came = outcome_of(answer, target)
    if isinstance(came, Refused):
        return Unsettled(f"Slack does not let the app look for the message: {came.reason}")
    return Unsettled(f"Slack cannot be asked now: {came.reason}", again=True)
