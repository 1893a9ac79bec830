"""What tasks left in folders of their own, each by the id of its task, when a process died with them."""

import logging
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from loops.tasks.workspace.trees import removed
from loops.threads import on_own_thread

log = logging.getLogger("loops.tasks.leftovers")

_UNKNOWN_SECONDS = 7 * 86_400.0


def left_in(folder: Path) -> list[str]:
    """The tasks that have a folder in this one; none where it is not there. Raises OSError."""
    try:
        return [one.name for one in folder.iterdir() if one.is_dir() and not one.is_symlink()]
    except FileNotFoundError:
        return []


async def swept(folder: Path, left: Iterable[str], open_tasks: Collection[str], known_tasks: Collection[str]) -> None:
    """Remove what tasks left that are over. What no task is known to have made goes after a week: it may be that of
    another service. One that will not go keeps no other."""
    oldest = time.time() - _UNKNOWN_SECONDS
    for task_id in left:
        try:
            known = task_id in known_tasks or (folder / task_id).stat().st_mtime < oldest
        except OSError as error:  # another process sweeps the same folders
            log.warning("a left folder is not swept: %s", error)
            continue
        if known and task_id not in open_tasks:
            await on_own_thread(lambda place=folder / task_id: removed(place))  # type: ignore[misc]
