"""Making of a message what a service takes: never at the cost of all else that runs, and never without an end."""

import logging
from collections.abc import Callable
from typing import TypeVar

from loops.threads import off_loop
from notify.message import Refused

T = TypeVar("T")
log = logging.getLogger("loops.outbox")

LARGE = 20_000
"""From how many bytes on a message is rendered beside the event loop."""

_MEND = "shorten or simplify what it says, and run the loop again; the service's log has the error"


async def rendered(make: Callable[[], T], size: int) -> T | Refused:
    """What `make` makes of a message of so many bytes. Whatever it raises refuses the message: a text that trips us up
    once does so each time, and must not be looked at for ever."""
    try:
        return await off_loop(make) if size >= LARGE else make()
    except Exception as error:
        log.exception("a message cannot be rendered")
        return Refused("message.unrenderable", f"it cannot be rendered: {type(error).__name__}", _MEND)
