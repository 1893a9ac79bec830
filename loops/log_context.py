"""What a log line is about: ids that are bound where the work is known and read where lines are written."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

_NOTHING: Mapping[str, str] = MappingProxyType({})
_bound: ContextVar[Mapping[str, str]] = ContextVar("loops_log_context", default=_NOTHING)


@contextmanager
def log_context(
    *, delivery_id: str | None = None, run_id: str | None = None, workflow_id: str | None = None
) -> Iterator[None]:
    """Bind ids to every log line inside the block, and in the tasks that begin in it; None leaves one as it is."""
    given = {"delivery_id": delivery_id, "run_id": run_id, "workflow_id": workflow_id}
    token = _bound.set({**_bound.get(), **{name: value for name, value in given.items() if value is not None}})
    try:
        yield
    finally:
        _bound.reset(token)


def bound_ids() -> Mapping[str, str]:
    """The ids that are bound here."""
    return _bound.get()
