"""Slack as a source of events."""

from triggers.slack.receive import SlackSource

__all__ = ["SlackSource"]
