"""The address of each workflow whose trigger is a webhook.

It is a connection of the workflow's own: made when the workflow is first saved, deleted when it is archived. The
connection holds the trigger as it stands now, so that receiving need not read the workflow.
"""

import hashlib
import hmac
import secrets as random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from loops.connections.book import ConnectionBook, OpenConnection
from loops.connections.secrets import SecretBox
from loops.definition.stored import stored_trigger
from loops.errors import Conflict, NotFound, StoreError
from loops.ports import Clock
from loops.store import connections as store
from loops.store import explaining
from loops.store import workflows as workflows_store
from loops.store.connections import ConnectionRow
from loops.store.workflows import WorkflowRow

KIND = "webhook"
WORKFLOW, TRIGGER, TOKEN, SECRET = "workflow", "trigger", "token", "webhook_secret"
_TOKEN_BYTES = 32
_LAST_ID_DIGITS = 9
_NO_ADDRESS = "there is no such webhook"
_WHERE = "loops webhook WORKFLOW shows the address of a webhook"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a workflow's requests go. `token` is a secret; `verified` when a sender has to prove itself as well."""

    connection_id: int
    token: str
    verified: bool
    method: str


class Webhooks:
    """Keeps the connections of webhooks in step with their workflows."""

    def __init__(self, box: SecretBox, clock: Clock) -> None:
        self._box = box
        self._clock = clock

    def keep(self, connection: sa.Connection, row: WorkflowRow) -> None:
        """Part of the transaction that saves a workflow, whose row is locked or new."""
        trigger = trigger_of(row)
        if row.status == "archived":
            self._delete(connection, row)
        elif trigger is not None:
            self._kept(connection, row, trigger)

    def address(self, connection: sa.Connection, project_id: str, workflow_id: str, *, rotate: bool = False) -> Address:
        """The workflow's address, made where there is none; with `rotate` another one, and the former is void.

        Raises NotFound, or Conflict where no request starts the workflow.
        """
        row = workflows_store.get(connection, project_id, workflow_id, lock=True)
        trigger = trigger_of(row)
        if trigger is None or row.status == "archived":
            what = "it is archived" if row.status == "archived" else "its trigger is no webhook"
            raise Conflict(f"workflow {row.name!r} has no address: {what}")
        found = self._kept(connection, row, trigger)
        opened = self._box.open(found.secrets)
        if rotate:
            opened = {**opened, TOKEN: _token(found.id)}
            self._store(connection, found.id, found.config, opened)
        return Address(found.id, str(opened[TOKEN]), SECRET in opened, method_of(trigger))

    def known(self, connection: sa.Connection, row: WorkflowRow) -> Address | None:
        """The workflow's address; None where it has none (yet), or no key of this service opens it. Stores nothing."""
        trigger = trigger_of(row)
        found = None if trigger is None else store.named(connection, row.project_id, KIND, row.id)
        if found is None or trigger is None:
            return None
        try:
            opened = self._box.open(found.secrets)
        except StoreError:
            return None
        return Address(found.id, str(opened[TOKEN]), SECRET in opened, method_of(trigger))

    def _kept(self, connection: sa.Connection, row: WorkflowRow, trigger: Mapping[str, Any]) -> ConnectionRow:
        config = {WORKFLOW: row.id, TRIGGER: dict(trigger)}
        found = store.named(connection, row.project_id, KIND, row.id)
        if found is None:
            new = store.insert(
                connection,
                project_id=row.project_id,
                kind=KIND,
                name=row.id,
                config=config,
                secrets=self._box.seal({}),
                now=self._clock.now(),
            )
            self._store(connection, new, config, {TOKEN: _token(new)})
        elif found.config != config:
            self._store(connection, found.id, config, self._box.open(found.secrets))
        else:
            return found
        kept = store.named(connection, row.project_id, KIND, row.id)
        if kept is None:
            raise StoreError("the webhook that was just stored is gone")
        return kept

    def _store(self, connection: sa.Connection, number: int, config: Mapping[str, Any], opened: dict[str, Any]) -> None:
        store.change(connection, number, config=config, secrets=self._box.seal(opened), now=self._clock.now())

    def _delete(self, connection: sa.Connection, row: WorkflowRow) -> None:
        found = store.named(connection, row.project_id, KIND, row.id)
        if found is not None:
            store.delete(connection, row.project_id, found.id)


async def webhook_at(book: ConnectionBook, token: str) -> OpenConnection:
    """The webhook with this token. Raises NotFound in the same words whatever is wrong with it."""
    number, _, rest = token.partition("-")
    if not rest or not (number.isascii() and number.isdigit() and len(number) <= _LAST_ID_DIGITS):
        raise NotFound(_NO_ADDRESS, hint=_WHERE)
    try:
        found = book.known(int(number), KIND) or await book.get(int(number), KIND)
    except NotFound:
        raise NotFound(_NO_ADDRESS, hint=_WHERE) from None
    if not hmac.compare_digest(_digest(found.secrets.get(TOKEN, "")), _digest(token)):
        raise NotFound(_NO_ADDRESS, hint=_WHERE)
    return found


def shown_names(connection: sa.Connection, rows: Sequence[ConnectionRow]) -> dict[int, str]:
    """What people know each connection by: a webhook by its workflow's name, any other by its own."""
    webhooks = [row.name for row in rows if row.kind == KIND]
    names = explaining.names(connection, webhooks) if webhooks else {}
    return {row.id: names.get(row.name, row.name) if row.kind == KIND else row.name for row in rows}


def trigger_of(row: WorkflowRow) -> Mapping[str, Any] | None:
    """The trigger's config where it is a webhook; None for all others."""
    config = stored_trigger(row.definition)
    return config if config.get("type") == KIND else None


def method_of(trigger: Mapping[str, Any]) -> str:
    """The method that the requests of a stored trigger have to have."""
    inputs = trigger.get("inputs")
    given = inputs.get("method") if isinstance(inputs, Mapping) else None
    return str((given.get("value") if isinstance(given, Mapping) else None) or "POST")


def _token(number: int) -> str:
    """Begins with the connection's number, by which it is found; the rest is the secret."""
    return f"{number}-{random.token_urlsafe(_TOKEN_BYTES)}"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
