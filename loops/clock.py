"""The system's clock."""

from datetime import UTC, datetime


class SystemClock:
    """The present instant of this machine."""

    def now(self) -> datetime:
        """See Clock."""
        return datetime.now(UTC)
