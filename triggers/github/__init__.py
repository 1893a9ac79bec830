"""GitHub as a source of events."""

from triggers.github.receive import GitHubSource

__all__ = ["GitHubSource"]
