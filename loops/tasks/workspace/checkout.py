"""The folders that tasks work in: one checkout a task, over the objects of a copy that its sandbox may only read.

    tasks/<place>/base.json    what it was made of; out of the agent's reach
    tasks/<place>/over         its checkout was given back
    tasks/<place>/checkout     what stands at HOME inside the sandbox

A place is the id of a task, for a later turn with the number of that. git runs here only until the checkout is handed
over.
"""

import json
import shutil
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from loops.errors import RepositoryError
from loops.tasks.workspace.cache import Base
from loops.tasks.workspace.git import Git
from loops.tasks.workspace.leftovers import left_in, swept
from loops.tasks.workspace.trees import removed
from loops.threads import on_own_thread

OBJECTS = "/repository/objects"
"""Where the objects of the copy stand inside the sandbox."""
AGENT = ("Agent", "agent@localhost")
"""Who commits inside the sandbox; nothing of those commits leaves it."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder that a task works in."""

    folder: Path
    base: Base


class Checkouts:
    """The checkouts in a folder. `objects` is where one finds those of its base, None where they are; `own` gives a
    folder to whom the commands of a task run as."""

    def __init__(
        self,
        folder: Path,
        git: Git,
        objects: str | None = OBJECTS,
        own: Callable[[Path], None] = lambda _folder: None,
    ) -> None:
        self._folder = folder
        self._git = git
        self._objects = objects
        self._own = own

    def objects_of(self, base: Base) -> str:
        """Where a checkout finds the objects of its base."""
        return self._objects or str(base.objects)

    def found(self, name: str) -> Checkout | None:
        """The checkout that a killed worker left for whoever takes up its task."""
        place = self._folder / name
        try:
            told = json.loads((place / "base.json").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        base = Base(Path(told["cache"]), told["branch"], told["sha"])
        is_whole = (place / "checkout").is_dir() and base.objects.is_dir()
        return Checkout(place / "checkout", base) if is_whole else None

    async def make(self, name: str, base: Base) -> Checkout:
        """A fresh checkout of the base. Raises RepositoryError."""
        place, making = self._folder / name, self._folder / name / "making"
        await self.remove(name)
        try:
            place.mkdir(mode=0o711)
        except OSError as error:
            raise RepositoryError(f"there is no place for a checkout: {error.strerror}", hint="see the log") from error
        await self._git.run("init", "-q", "--template=", f"--initial-branch={base.branch}", str(making))
        await self._fill(making, base)
        making.chmod(0o700)
        await on_own_thread(lambda: self._own(making))
        told = {"cache": str(base.cache), "branch": base.branch, "sha": base.sha}
        (place / "base.json").write_text(json.dumps(told), "utf-8")
        making.rename(place / "checkout")
        return Checkout(place / "checkout", base)

    async def _fill(self, making: Path, base: Base) -> None:
        borrowed = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(base.objects)}
        shallow = base.cache / "shallow"
        if shallow.exists():
            shutil.copyfile(shallow, making / ".git" / "shallow")
        for arguments in (
            ("update-ref", f"refs/heads/{base.branch}", base.sha),
            ("reset", "-q", "--hard"),
            ("config", "user.name", AGENT[0]),
            ("config", "user.email", AGENT[1]),
        ):
            await self._git.run(*arguments, folder=making, environment=borrowed, seconds=300.0)
        information = making / ".git" / "objects" / "info"
        information.mkdir(exist_ok=True)
        (information / "alternates").write_text(f"{self.objects_of(base)}\n", "utf-8")

    async def remove(self, name: str) -> None:
        """Remove what is there of a task's."""
        await on_own_thread(lambda: removed(self._folder / name))

    async def give_back(self, name: str) -> None:
        """Remove what a task worked in, and remember that nothing of it is needed any more, until it is swept."""
        place = self._folder / name
        if await on_own_thread(place.is_dir):
            (place / "over").touch()
            await on_own_thread(lambda: removed(place / "checkout"))

    def is_over(self, name: str) -> bool:
        """Whether the checkout of a task was given back here."""
        return (self._folder / name / "over").exists()

    def left(self) -> list[str]:
        """The places that are here."""
        return left_in(self._folder)

    async def sweep(self, left: Iterable[str], open_tasks: Collection[str], known_tasks: Collection[str]) -> None:
        """Remove what tasks left that are over, of the places that were here before these were asked for."""
        await swept(self._folder, left, open_tasks, known_tasks)
