"""Under which names each repository was seen, so that a loop that names an old one still hears of it.

GitHub's number of a repository stays when it is renamed or moved. An old name counts for as long as no other repository
was seen under it.
"""

import sqlalchemy as sa

from loops.event import Event
from loops.ports import Clock
from loops.store import github as store
from loops.store.github import SeenName
from triggers.source import Topic

_LONGEST_NAME = 200
"""GitHub's have 140 characters at most; what is longer names no repository, and no index would hold all of it."""


class RepositoryNames:
    """What is known in this process. Changed by one transaction at a time; `may_differ` may be asked from another
    thread."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], tuple[str, ...]] = {}
        self._owners: dict[tuple[int, str], int] = {}
        self._by_id: dict[int, frozenset[str]] = {}
        self._new: list[SeenName] = []
        self._epoch = 0

    def refresh(self, connection: sa.Connection) -> None:
        """Learn what any process has stored since."""
        self._new.clear()
        epoch = store.epoch_of(connection, store.NAMES)
        if epoch == self._epoch:
            return
        for seen in store.names_since(connection, self._epoch):
            self._add(seen)
        self._epoch = epoch

    def forget(self) -> None:
        """Load everything anew at the next refresh: what was noted in a transaction that failed is not stored."""
        for known in (self._names, self._owners, self._by_id, self._new):
            known.clear()
        self._epoch = 0

    def see(self, connection_id: int, event: Event) -> tuple[str, ...]:
        """Take note of the event's repository; the other names that it was seen under and that are its own still."""
        seen = _seen(connection_id, event)
        if seen is None:
            return ()
        number, name = seen.repository_id, seen.name
        known = self._names.get((connection_id, number), ())
        if name not in known:
            self._new.append(seen)
            self._add(seen)
        if len(known) == (name in known):
            return ()
        return tuple(one for one in known if one != name and self._owners.get((connection_id, one)) == number)

    def keep(self, connection: sa.Connection, clock: Clock) -> None:
        """Store what was noted since `refresh`."""
        if self._new:
            store.keep_names(connection, self._new, clock.now())

    def may_differ(self, topic: Topic) -> bool:
        """Whether an event of this topic may be heard under another name than the topic's."""
        names = self._by_id.get(topic.repository_id) if topic.repository_id is not None else None
        return names is not None and (len(names) > 1 or topic.repository not in names)

    def _add(self, seen: SeenName) -> None:
        key = (seen.connection_id, seen.repository_id)
        if seen.name not in self._names.get(key, ()):
            self._names[key] = (*self._names.get(key, ()), seen.name)
        self._owners[seen.connection_id, seen.name] = seen.repository_id
        self._by_id[seen.repository_id] = self._by_id.get(seen.repository_id, frozenset()) | {seen.name}


def other_names(connection: sa.Connection, connection_id: int, event: Event) -> tuple[str, ...]:
    """As `see` tells them, from the database and without a note."""
    seen = _seen(connection_id, event)
    return store.other_names(connection, seen) if seen is not None else ()


def _seen(connection_id: int, event: Event) -> SeenName | None:
    """The event's repository by number and name; None where it has no such."""
    number, name = event.properties.get("repository_id"), event.properties.get("repository")
    if not isinstance(number, int) or not isinstance(name, str):
        return None
    if not 0 < number <= store.LARGEST_ID or len(name) > _LONGEST_NAME:
        return None
    return SeenName(connection_id, number, name)
