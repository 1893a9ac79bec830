"""What Slack's Web API answers, and what mends what it refuses whatever was asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

_ANEW = (
    "put the app's present token into the Slack connection: copy it from the app's settings, and install the app anew "
    "there after a change of its scopes"
)
_LONGEST_WAIT = 3600.0
_LIMITED = 429

_BY_ID = (
    "name the channel by its id (open its details in Slack: the id stands at the end), in this workspace; to a private "
    "channel the app must be invited: /invite @{app}"
)

TOKEN_MENDS: Mapping[str, str] = MappingProxyType(
    {
        "not_authed": _ANEW,
        "invalid_auth": _ANEW,
        "account_inactive": _ANEW,
        "token_revoked": _ANEW,
        "token_expired": _ANEW,
        "no_permission": _ANEW,
        "not_allowed_token_type": "bot_token begins with xoxb-, app_token with xapp-",
    }
)
"""What mends a token that Slack does not take, by Slack's word for it."""

SCOPE_MEND = "add the scope {needed} under OAuth & Permissions, then install the app anew: it has {provided}"
"""What mends that a token may not do something."""

CHANNEL_WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "not_in_channel": ("the app is not in {channel}", "invite it there: /invite @{app}"),
        "channel_not_found": ("{channel} is no channel that the app sees", _BY_ID),
        "is_archived": ("{channel} is archived", "unarchive it, or name another channel"),
    }
)
"""Why nothing can be posted to a channel, and what mends it, by Slack's word for it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for a call: `body` parsed, empty where it was no JSON object."""

    status: int
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def ok(self) -> bool:
        """Whether Slack did what was asked."""
        return self.body.get("ok") is True

    @property
    def code(self) -> str:
        """Slack's own word for a refusal; empty if there is none, and then it was hardly Slack that answered."""
        return self.text("error")

    @property
    def needed(self) -> str:
        """The scopes that the call asks for, as Slack lists them."""
        return self.text("needed")

    @property
    def provided(self) -> str:
        """The scopes that the token has."""
        return self.text("provided") or "none"

    @property
    def retry_after(self) -> float | None:
        """The seconds that Slack asks to wait, an hour at most; None where it does not say."""
        told = self.header("retry-after")
        return min(float(told), _LONGEST_WAIT) if told.isascii() and told.isdigit() else None

    @property
    def is_limited(self) -> bool:
        """Whether Slack asks for patience."""
        return self.status == _LIMITED or self.code in {"ratelimited", "rate_limited"}

    @property
    def scopes(self) -> frozenset[str]:
        """What the token may do, which Slack tells with most answers."""
        return frozenset(scope for one in self.header("x-oauth-scopes").split(",") if (scope := one.strip()))

    def header(self, name: str) -> str:
        """A header by its name in lower case; empty where there is none."""
        return next((value for key, value in self.headers.items() if key.lower() == name), "")

    def text(self, key: str) -> str:
        """A text of the body; empty where there is none."""
        found = self.body.get(key)
        return found if isinstance(found, str) else ""
