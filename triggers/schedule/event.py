"""An occurrence of a schedule as an event."""

import uuid
from datetime import datetime, tzinfo

from loops.event import Event

SOURCE = "schedule"
EVENT = "$scheduled"
_NAMESPACE = uuid.UUID("2b6f0cc9-04d1-5c0b-9d7a-6a1f5c0e8e43")


def to_event(schedule_id: str, due_at: datetime, zone: tzinfo, *, late: bool) -> Event:
    """The event of one occurrence: the same whoever makes it, and however often. It has no person; its subject is the
    schedule, so notes that a run leaves are open to the next one of it."""
    local, subject = due_at.astimezone(zone), f"schedule_{schedule_id}"
    return Event(
        uuid=str(uuid.uuid5(_NAMESPACE, f"{schedule_id}/{due_at.isoformat()}")),
        name=EVENT,
        source=SOURCE,
        distinct_id=subject,
        timestamp=due_at,
        properties={
            "schedule_id": schedule_id,
            "scheduled_at": due_at.isoformat(),
            "local_time": local.isoformat(),
            "timezone": str(zone),
            "weekday": local.strftime("%A"),
            "late": late,
        },
        subject=subject,
    )
