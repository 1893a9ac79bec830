"""Deliveries that GitHub could not hand over are asked for again: GitHub itself tries each only once.

The list of deliveries of an app's hook, or of the hooks of repositories that a token may see, is read after the start
and every ten minutes. What failed, and was not accepted all the same, is redelivered: at once, then after longer and
longer waits, for as long as GitHub keeps it. It comes with the id of the first time, so nothing is taken twice.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, urlsplit

from loops.connections.github import LEAST_REMAINING, GitHubClient, GitHubClients
from loops.errors import ExternalError, StoreBusy
from loops.event import JsonValue
from loops.ports import Clock, Reader
from loops.store import connections, github
from loops.store.connections import ConnectionRow

log = logging.getLogger("loops.redelivery")

EVERY_SECONDS = 600.0
KEPT = timedelta(days=3)
"""For as long GitHub keeps a delivery."""
_OVERLAP = timedelta(minutes=20)
_FIRST_WAIT = timedelta(minutes=10)
_MOST_PAGES = 20
_MOST_AT_ONCE = 50
_MOST_REPOSITORIES = 50
_LIST_SECONDS = 10.0
# What would be refused again, however often it came.
_FINAL = frozenset({400, 413})
_OK = range(200, 300)


@dataclass(frozen=True, slots=True)
class _Failed:
    """A delivery that did not arrive; `id` is GitHub's of its last attempt, `guid` the one that stays."""

    guid: str
    id: int
    at: datetime
    tries: int = 0
    next_try: datetime | None = None

    def again(self, now: datetime) -> "_Failed":
        wait = _FIRST_WAIT * 2**self.tries
        return _Failed(self.guid, self.id, self.at, self.tries + 1, now + wait)


class Redelivery:
    """Looks after the hooks of every GitHub connection that has credentials."""

    def __init__(
        self,
        clients: GitHubClients,
        reader: Reader,
        clock: Clock,
        public_url: Callable[[], str],
        observe: Callable[[str, int], None] = lambda _outcome, _count: None,
    ) -> None:
        """`observe` is told how many deliveries were asked for again, and for how many that was refused."""
        self._clients = clients
        self._reader = reader
        self._clock = clock
        self._public_url = public_url
        self._observe = observe
        self._failed: dict[tuple[int, str], dict[str, _Failed]] = {}
        self._read_at: dict[tuple[int, str], datetime] = {}
        self._said: dict[int, str] = {}

    async def forever(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.once()
            except StoreBusy as error:
                log.warning("deliveries that failed are not looked for now: %s", error.message)
            await asyncio.sleep(EVERY_SECONDS)

    async def once(self) -> int:
        """Look at every hook; how many deliveries were asked for again. Raises StoreBusy."""
        count = 0
        for row in await self._reader.read(lambda connection: connections.of_kind(connection, "github")):
            client = self._clients.of(row)
            if client is None:
                continue
            try:
                count += await self._look_after(row, client)
                self._said.pop(row.id, None)
            except ExternalError as error:
                self._tell(row, error)
        return count

    async def _look_after(self, row: ConnectionRow, client: GitHubClient) -> int:
        hooks = ["/app/hook"] if client.is_app else await self._hooks(row, client)
        return sum([await self._redeliver(row, client, hook) for hook in hooks])

    async def _hooks(self, row: ConnectionRow, client: GitHubClient) -> list[str]:
        """The hooks that lead to this connection, of the repositories that it has heard of."""
        seen = await self._reader.read(lambda connection: github.names_of(connection, row.id, _MOST_REPOSITORIES))
        latest = {one.repository_id: one.name for one in reversed(seen)}
        hooks: list[str] = []
        refused: ExternalError | None = None
        for name in latest.values():
            path = f"/repos/{quote(name)}/hooks"
            try:
                listed = (await client.call("GET", f"{path}?per_page=100")).items()
            except ExternalError as error:  # one repository that the token may not see is no reason to leave the others
                refused = error
                continue
            hooks += [f"{path}/{number}" for number in leading_to(row.id, self._public_url(), listed)]
        if refused is not None and not hooks:
            raise refused
        return hooks

    async def _redeliver(self, row: ConnectionRow, client: GitHubClient, hook: str) -> int:
        now = self._clock.now()
        key = (row.id, hook)
        failed = self._failed.setdefault(key, {})
        await self._read(client, hook, failed, self._read_at.get(key, now - KEPT) - _OVERLAP)
        self._read_at[key] = now
        for guid in [guid for guid, one in failed.items() if one.at < now - KEPT]:
            del failed[guid]
        keys = [*failed]
        for guid in await self._reader.read(lambda connection: github.accepted_keys(connection, row.id, keys)):
            del failed[guid]  # its answer was lost, no more
        due = [one for one in failed.values() if one.next_try is None or one.next_try <= now]
        return await self._ask(row, client, hook, failed, sorted(due, key=lambda one: one.id)[:_MOST_AT_ONCE])

    async def _ask(
        self,
        row: ConnectionRow,
        client: GitHubClient,
        hook: str,
        failed: dict[str, _Failed],
        due: Iterable[_Failed],
    ) -> int:
        asked = 0
        try:
            for one in due:
                left = client.remaining()
                if left is not None and left < LEAST_REMAINING:
                    log.warning("redelivery waits for the rate limit", extra={"connection": row.id, "left": left})
                    break
                failed[one.guid] = one.again(self._clock.now())
                await client.call("POST", f"{hook}/deliveries/{one.id}/attempts")
                asked += 1
        except ExternalError:
            self._observe("refused", 1)
            raise
        finally:
            if asked:
                self._observe("asked", asked)
                log.info("asked GitHub to deliver again what had failed", extra={"connection": row.id, "count": asked})
        return asked

    async def _read(self, client: GitHubClient, hook: str, failed: dict[str, _Failed], since: datetime) -> None:
        """Bring what is known to have failed up to date with the list, whose newest entries come first."""
        settled: set[str] = set()
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            path = f"{hook}/deliveries?per_page=100" + (f"&cursor={quote(cursor, safe='')}" if cursor else "")
            answer = await client.call("GET", path, seconds=_LIST_SECONDS)
            entries = answer.items()
            for entry in entries:
                _take(entry, failed, settled)
            cursor = answer.next_cursor
            oldest = _instant(entries[-1].get("delivered_at")) if entries else None
            if cursor is None or oldest is None or oldest < since:
                return

    def _tell(self, row: ConnectionRow, error: ExternalError) -> None:
        """Once for each reason: it is asked every ten minutes."""
        if self._said.get(row.id) != error.message:
            self._said[row.id] = error.message
            hint = f" ({error.hint})" if error.hint else ""
            log.warning(
                "deliveries that failed cannot be asked for: %s%s", error.message, hint, extra={"connection": row.id}
            )


def _take(entry: Mapping[str, JsonValue], failed: dict[str, _Failed], settled: set[str]) -> None:
    guid, number, status = entry.get("guid"), entry.get("id"), entry.get("status_code")
    at = _instant(entry.get("delivered_at"))
    if not isinstance(guid, str) or not isinstance(number, int) or at is None or guid in settled:
        return
    settled.add(guid)  # the first that is seen is the last that was tried
    if isinstance(status, int) and (status in _OK or status in _FINAL):
        failed.pop(guid, None)
        return
    before = failed.get(guid)
    if before is None:
        failed[guid] = _Failed(guid, number, at)
    else:
        failed[guid] = _Failed(guid, number, before.at, before.tries, before.next_try)


def leading_to(connection_id: int, public_url: str, hooks: Iterable[Mapping[str, JsonValue]]) -> list[int]:
    """The numbers of the hooks that lead here: by the whole address, or, where the service does not know its outer
    address, by the path of the only one that could."""
    path = f"/hooks/github/{connection_id}"
    found: list[tuple[int, str]] = []
    for hook in hooks:
        config, number = hook.get("config"), hook.get("id")
        url = config.get("url") if isinstance(config, dict) else None
        if isinstance(url, str) and isinstance(number, int) and urlsplit(url).path.rstrip("/") == path:
            found.append((number, url.rstrip("/")))
    exact = [number for number, url in found if url == f"{public_url}{path}"]
    return exact or ([found[0][0]] if len(found) == 1 else [])


def _instant(text: JsonValue) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
