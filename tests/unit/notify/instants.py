"""A fixed present."""

from datetime import UTC, datetime

NOW = datetime(2026, 7, 6, 12, 0, tzinfo=UTC)
