"""Moves what was written from SQLite's log into its file, beside the writer.

By itself SQLite does this inside a commit, and everybody who waits for that commit waits for it. Here a thread with a
connection of its own does it every half second. Only a log that has outgrown its bound, as under load that never
pauses, is cut with the writers held for a moment.
"""

import contextlib
import logging
import sqlite3
import threading
from pathlib import Path

log = logging.getLogger("loops.store")

EVERY_SECONDS = 0.5
SMALLEST_LOG = 4 * 1024 * 1024
LARGEST_LOG = 256 * 1024 * 1024


class Checkpointer:
    """The thread; it ends with `close`."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._log = database.with_name(database.name + "-wal")
        self._seen = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="loops-checkpoint", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; what is left the last connection moves when it closes."""
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        with contextlib.closing(sqlite3.connect(self._database, timeout=1.0, isolation_level=None)) as connection:
            while not self._over.wait(EVERY_SECONDS):
                mode = self._wanted()
                if mode is None:
                    continue
                try:
                    connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
                except sqlite3.Error as error:  # a full disk, say; it is tried again, and writing tells its own errors
                    log.warning("cannot move the log into the database: %s", error)

    def _wanted(self) -> str | None:
        """How to move it now; None when there is nothing new, or little."""
        try:
            stat = self._log.stat()
        except OSError:
            return None
        if stat.st_size < SMALLEST_LOG or stat.st_mtime_ns == self._seen:
            return None
        self._seen = stat.st_mtime_ns
        return "PASSIVE" if stat.st_size < LARGEST_LOG else "TRUNCATE"
