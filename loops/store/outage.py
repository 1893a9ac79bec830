"""Telling a database that cannot work now from a statement that never will."""

import sqlite3

import psycopg
from sqlalchemy.exc import DBAPIError

from loops.errors import PayloadMalformed, StoreBusy

# Classes of SQLSTATE that speak of the values: data exception, integrity, a limit such as an index entry's length.
_OF_VALUES = ("22", "23", "54")


def is_outage(error: BaseException) -> bool:
    """Whether the same statement may succeed later: the database is away, locked, full or stopping."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
        return (cause.sqlstate or "")[:2] not in _OF_VALUES
    if isinstance(cause, sqlite3.OperationalError):
        # SQLITE_ERROR is SQL that this database does not understand.
        return getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_BUSY) & 0xFF != sqlite3.SQLITE_ERROR
    # What is no finer kind of error: a file that is damaged, or no database.
    return type(cause) in {sqlite3.DatabaseError, sqlite3.InternalError, sqlite3.InterfaceError}


def is_deadlock(error: BaseException) -> bool:
    """Whether Postgres gave up a statement since two transactions waited for each other."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return getattr(cause, "sqlstate", None) == "40P01"


def is_locked(error: BaseException) -> bool:
    """Whether somebody else has SQLite's write lock."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def busy(error: BaseException) -> StoreBusy:
    """What a caller is told when the database could not work."""
    return StoreBusy(
        f"the database cannot work now: {_first_line(error)}", hint="check its disk and log, then try again"
    )


def unstorable(error: BaseException) -> PayloadMalformed:
    """What a caller is told whose values no statement could store."""
    message = f"the delivery holds what the database cannot store: {_first_line(error)}"
    return PayloadMalformed(message, path="body", hint="this is a fault of Loops: please report it")


def _first_line(error: BaseException) -> str:
    return (str(getattr(error, "orig", error)).splitlines() or [type(error).__name__])[0]
