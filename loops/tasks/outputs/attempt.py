"""Trying to write something outside once, where an answer may be lost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from loops.errors import BranchMoved, ExternalError, PatchRefused, RepositoryError, Unreached

_LONGEST_WAIT = 60.0
_PASSING = frozenset({429, 500, 502, 503, 504})
_MAY_HAVE_ACTED = frozenset({500, 502, 504})


class Unsettled(Exception):
    """Nobody knows whether it was written."""


@dataclass(frozen=True, slots=True)
class Writing:
    """One thing to write: `write` does it and comes to its address, `find` looks for it. What is `repeatable` is there
    once, however often it is asked for."""

    write: Callable[[], Awaitable[str]]
    find: Callable[[], Awaitable[str | None]]
    repeatable: bool = False


async def attempted(writing: Writing, pauses: Sequence[float], still: Callable[[], Awaitable[None]]) -> str:
    """The address of what was written, tried again after each of `pauses` (in seconds) where nothing was.

    Raises what it is refused with (ExternalError, RepositoryError), Unsettled, or what `still` raises, which is asked
    after each pause whether it is still this caller that writes.
    """
    for pause in (*pauses, None):
        try:
            return await writing.write()
        except (ExternalError, RepositoryError) as error:
            if not writing.repeatable and _may_have_acted(error):
                return await _looked_for(writing, pauses, error)
            if pause is None and _may_have_acted(error):
                raise Unsettled(error.message) from error
            if pause is None or not _passes(error):
                raise
            await asyncio.sleep(max(pause, min(_asked_to_wait(error), _LONGEST_WAIT)))
            await still()
    raise AssertionError("the last try returns or raises")


async def _looked_for(writing: Writing, pauses: Sequence[float], lost: ExternalError | RepositoryError) -> str:
    """It is not written again: what was sent may yet arrive."""
    for pause in pauses:
        await asyncio.sleep(pause)
        with suppress(ExternalError):
            if (address := await writing.find()) is not None:
                return address
    raise Unsettled(lost.message) from lost


def _passes(error: ExternalError | RepositoryError) -> bool:
    """Whether the same may go well a moment later. git does not say why it could not push."""
    if isinstance(error, ExternalError):
        return isinstance(error, Unreached) or error.retry_after is not None or error.status in _PASSING
    return not isinstance(error, BranchMoved | PatchRefused)


def _may_have_acted(error: ExternalError | RepositoryError) -> bool:
    if isinstance(error, Unreached):
        return error.sent
    return isinstance(error, ExternalError) and error.status in _MAY_HAVE_ACTED


def _asked_to_wait(error: ExternalError | RepositoryError) -> float:
    return (error.retry_after or 0.0) if isinstance(error, ExternalError) else 0.0
