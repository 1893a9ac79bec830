"""Whether a body is of the event that the header names: GitHub signs the body alone."""

from collections.abc import Mapping
from types import MappingProxyType

from triggers.github.payload import Payload

_SUBJECTS = (
    "comment", "review", "pull_request", "issue", "discussion", "release", "workflow_run", "workflow_job",
    "check_suite", "check_run",
)  # fmt: skip
_REFS = ("action", *_SUBJECTS)
_REMARKS = ("comment", "review")
# What a body of the event never holds. What it lacks counts as absent, as everywhere.
_NEVER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "push": _REFS,
        "create": _REFS,
        "delete": _REFS,
        "issues": _REMARKS,
        "pull_request": _REMARKS,
        "discussion": _REMARKS,
        "release": _REMARKS,
    }
)


def foreign_field(event_type: str, payload: Payload) -> str | None:
    """The field that makes the body one of another event than this; None where nothing does."""
    return next((name for name in _NEVER.get(event_type, ()) if getattr(payload, name) is not None), None)


def is_push(event_type: str, payload: Payload) -> bool:
    """Whether the body itself is that of a push, whatever was said of it."""
    told = payload.ref is not None and payload.before is not None and payload.after is not None
    return event_type == "push" and told and foreign_field("push", payload) is None
