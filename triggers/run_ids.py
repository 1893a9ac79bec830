"""Ids of runs."""

import uuid

from loops.event import Event

_NAMESPACE = uuid.UUID("5f0c8a52-9d0e-5c7e-8d0d-5e1d3a4b7c11")


def run_id(event: Event, project_id: str, workflow_id: str, replay: int = 0) -> str:
    """The id of the run that this event starts of this workflow: the same however often it is computed."""
    return str(uuid.uuid5(_NAMESPACE, f"{project_id}/{event.source}/{event.uuid}/{workflow_id}/{replay}"))
