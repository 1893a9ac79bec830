"""What tasks left in folders of their own, each named for the turn of its task, when a process died with them."""

import logging
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from loops.tasks.workspace.trees import removed
from loops.threads import on_own_thread

log = logging.getLogger("loops.tasks.leftovers")

TURN = "."
"""Between the id of a task and the number of a later turn, in the names of its folders."""
_UNKNOWN_SECONDS = 7 * 86_400.0


def left_in(folder: Path) -> list[str]:
    """The names of the folders in this one; none where it is not there. Raises OSError."""
    try:
        return [one.name for one in folder.iterdir() if one.is_dir() and not one.is_symlink()]
    except FileNotFoundError:
        return []


def tasks_of(names: Iterable[str]) -> list[str]:
    """The tasks that made folders with these names."""
    return list({name.partition(TURN)[0] for name in names})


async def swept(folder: Path, left: Iterable[str], open_tasks: Collection[str], known_tasks: Collection[str]) -> None:
    """Remove what tasks left that are over. What no task is known to have made goes after a week: it may be that of
    another service. One that will not go keeps no other. `left` was read before the tasks were asked for, since a turn
    may begin at any time."""
    oldest = time.time() - _UNKNOWN_SECONDS
    for name in left:
        task_id = name.partition(TURN)[0]
        try:
            known = task_id in known_tasks or (folder / name).stat().st_mtime < oldest
        except OSError as error:  # another process sweeps the same folders
            log.warning("a left folder is not swept: %s", error)
            continue
        if known and task_id not in open_tasks:
            await on_own_thread(lambda place=folder / name: removed(place))  # type: ignore[misc]
