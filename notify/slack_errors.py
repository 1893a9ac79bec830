"""What Slack's refusals mean: for good, for now, or nobody knows; and what mends them."""

from collections.abc import Mapping

from loops.connections.slack_answer import CHANNEL_WORDS, SCOPE_MEND, TOKEN_MENDS, Answer
from notify.message import Refused, Retry, Uncertain

_SHORTER = "shorten the text or the blocks"
_POLICY = "ask an admin of the workspace to let the app post there, or name another channel"
_NAMELESS = "its-name"

MENDS: Mapping[str, str] = {
    **TOKEN_MENDS,
    **{code: mend for code, (_reason, mend) in CHANNEL_WORDS.items()},
    "missing_scope": SCOPE_MEND,
    "org_login_required": _POLICY,
    "ekm_access_denied": _POLICY,
    "access_denied": _POLICY,
    "team_access_not_granted": "install the app in this workspace",
    "restricted_action": _POLICY,
    "restricted_action_read_only_channel": _POLICY,
    "restricted_action_thread_only_channel": "this channel takes replies only: set thread_ts",
    "restricted_action_non_threadable_channel": "this channel takes no replies: leave thread_ts out",
    "restricted_action_thread_locked": "the thread is locked: post to the channel or another thread",
    "cannot_reply_to_message": "thread_ts must be the ts of a message that can be answered",
    "thread_not_found": "thread_ts must be the ts of a message in {channel}",
    "message_not_found": "thread_ts must be the ts of a message in {channel}",
    "invalid_thread_ts": "thread_ts must be the ts of a message, such as 1751800000.000100",
    "msg_too_long": _SHORTER,
    "msg_blocks_too_long": _SHORTER,
    "invalid_blocks": "hold the blocks against Slack's Block Kit Builder",
    "invalid_blocks_format": "blocks must be a list of objects",
    "no_text": "give the message a text",
    "message_limit_exceeded": "the workspace has reached its plan's limit of messages",
    "messages_tab_disabled": "switch on the messages tab under App Home",
    "cannot_dm_bot": "name a person or a channel, no bot",
    "user_not_found": "name a person of this workspace by user id",
}
RETRIED = frozenset({"ratelimited", "rate_limited", "service_unavailable", "team_added_to_org", "accesslimited"})
# "It's possible some aspect of the operation succeeded" is Slack's own word on the first two.
UNCERTAIN = frozenset({"fatal_error", "internal_error", "request_timeout"})
_OK = 200
_SERVER = 500
_SHORT_WAIT = 1.0


def outcome_of(answer: Answer, channel: str) -> Refused | Retry | Uncertain:
    """What an answer that is not ok makes of the message."""
    if answer.is_limited:
        after = _SHORT_WAIT if answer.retry_after is None else answer.retry_after
        return Retry("Slack asks for fewer messages", after=after, whole=True)
    if answer.code in RETRIED:
        return Retry(f"Slack cannot take messages now: {answer.code}")
    if answer.code in UNCERTAIN or not answer.code:
        told = answer.code or "no answer of Slack's API"
        if not answer.code and _OK < answer.status < _SERVER:
            return Refused("no_slack", f"what answers is not Slack: status {answer.status}", "check api_base_url")
        return Uncertain(f"Slack failed while it took the message: {told}, status {answer.status}")
    return refusal(answer, channel)


def refusal(answer: Answer, channel: str, app: str = _NAMELESS) -> Refused:
    """An `ok: false` that stays one. `app` is what the app is invited by."""
    mend = MENDS.get(answer.code, "")
    if not mend and answer.code.startswith("restricted_action"):
        mend = _POLICY
    told = mend.format(channel=channel, app=app, needed=answer.needed or "that it lacks", provided=answer.provided)
    return Refused(answer.code, _reason(answer, channel), told)


def _reason(answer: Answer, channel: str) -> str:
    if answer.code in CHANNEL_WORDS:
        return CHANNEL_WORDS[answer.code][0].format(channel=channel)
    reason = f"Slack refuses the message to {channel}: {answer.code}"
    if answer.code == "missing_scope":
        reason += f", needed {answer.needed or 'unknown'}, provided {answer.provided}"
    details = answer.body.get("response_metadata")
    messages = details.get("messages") if isinstance(details, Mapping) else None
    if isinstance(messages, list) and messages:
        reason += f" ({'; '.join(str(one) for one in messages[:3])[:300]})"
    return reason
