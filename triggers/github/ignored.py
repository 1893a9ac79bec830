"""GitHub events that are known and start nothing, each with the reason that is recorded."""

from collections.abc import Mapping
from types import MappingProxyType

from triggers.github.payload import Payload

_ALWAYS: Mapping[str, str] = MappingProxyType(
    {
        "ping": "pong",
        "meta": "the webhook itself was deleted on GitHub",
        "installation": "tells of the app's installation, not of a repository",
        "installation_repositories": "tells which repositories the app may see, not of one of them",
        "installation_target": "tells that the account of the app's installation was renamed",
        "github_app_authorization": "tells of a person's authorization of the app, not of a repository",
        "marketplace_purchase": "tells of a purchase, not of a repository",
    }
)
# Some of these name a repository at times, as `team` does when it is given one.
_WITHOUT_REPOSITORY = frozenset(
    {
        "custom_property",
        "membership",
        "org_block",
        "organization",
        "personal_access_token_request",
        "projects_v2",
        "projects_v2_item",
        "projects_v2_status_update",
        "security_advisory",
        "sponsorship",
        "team",
    }
)


def ignored_reason(event_type: str, payload: Payload) -> str | None:
    """Why the event starts nothing; None for one that may."""
    if event_type in _ALWAYS:
        return _ALWAYS[event_type]
    if event_type in _WITHOUT_REPOSITORY and payload.repository is None:
        return f"{event_type} names no repository"
    return None
