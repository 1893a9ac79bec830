"""The files of a checkout as skills are read from them."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from loops.tasks.workspace.files import FileFault, Files
from loops.threads import off_loop

_DEPTH = 6


@dataclass(frozen=True, slots=True)
class CheckoutFiles:
    """Fills `Checkout` of the skills: nothing outside is reached, and what cannot be read is not there."""

    files: Files

    async def listed(self, folder: str, most: int) -> list[str]:
        """See Checkout."""

        def look() -> list[str]:
            found: list[str] = []
            try:
                for entry in self.files.entries(folder, _DEPTH):
                    if entry.kind == "file":
                        found.append(PurePosixPath(entry.path).relative_to(folder).as_posix())
                    if len(found) >= most:
                        break
            except FileFault:
                return found
            return found

        return await off_loop(look)

    async def text(self, path: str, most: int) -> str | None:
        """See Checkout."""
        try:
            content = await off_loop(lambda: self.files.read(path))
            return content[:most].decode("utf-8", "ignore") if b"\0" not in content else None
        except FileFault:
            return None
