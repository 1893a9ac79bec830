"""PostHog: webhook destinations and what its SDKs capture."""

from triggers.posthog.receive import PostHogSource

__all__ = ["PostHogSource"]
