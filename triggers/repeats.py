"""Events that bring their own id and have come before in another delivery: an SDK that sent one twice, or PostHog's
webhook telling of what was captured here as well."""

from collections.abc import Sequence

import sqlalchemy as sa

from loops.event import Event
from loops.store.deliveries import brought_by


def repeats(connection: sa.Connection, project_id: str, delivery_id: str, events: Sequence[Event]) -> dict[str, str]:
    """What is said of those of the events that another delivery has brought, by uuid.

    What came unverified does not count against the verified event: anybody can send what is not verified. So the other
    one may have come later.
    """
    if not events:
        return {}
    stored = brought_by(connection, project_id, events[0].source, [event.uuid for event in events])
    found: dict[str, str] = {}
    for event in events:
        if event.uuid not in stored:
            continue
        other, verified = stored[event.uuid]
        if other != delivery_id and (verified or not event.verified):
            again = "again verified" if verified and not event.verified else "again"
            # Ids of deliveries sort by when they came.
            found[event.uuid] = f"the same event came {again if other > delivery_id else 'before'}, in delivery {other}"
    return found
