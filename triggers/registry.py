"""Every source, by the name in its hook's address. One more source is one more line."""

from collections.abc import Mapping
from types import MappingProxyType

from triggers.github import GitHubSource
from triggers.posthog import PostHogSource
from triggers.slack import SlackSource
from triggers.source import Source
from triggers.webhook import WebhookSource

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "github": GitHubSource(),
        "posthog": PostHogSource(),
        "slack": SlackSource(),
        "webhook": WebhookSource(),
    }
)
