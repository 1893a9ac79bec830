import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from config.setting_values import SECRET_KEY_MIN_CHARS, SettingError

FILE_NAME = "secret.key"


def read_or_make_key(data_dir: Path) -> str:
    """The key kept in `data_dir`, made (mode 0600) when there is none.

    Processes that start at once agree on one key. Raises SettingError.
    """
    path = data_dir / FILE_NAME
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _make(path)
        if path.stat().st_mode & 0o077:
            raise SettingError(f"{path} can be read by other users", f"chmod 600 {path}")
        key = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: {error}", "the data folder must belong to the user of the service") from error
    if len(key) < SECRET_KEY_MIN_CHARS:
        raise SettingError(
            f"{path} does not hold a key of at least {SECRET_KEY_MIN_CHARS} characters",
            "restore it from the backup; without it stored connections cannot be read",
        )
    return key


def _make(path: Path) -> None:
    """Write the key aside and link it into place, so that nobody ever reads half of it and the first one wins."""
    descriptor, aside = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(secrets.token_urlsafe(32) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileExistsError):
            os.link(aside, path)
    finally:
        Path(aside).unlink()
