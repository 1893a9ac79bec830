"""The tables, one class each. All names begin with `loops_`: the engine's own tables share the database.

Repositories use the Core tables at the end of this module; the classes are their documentation and the source of
the first migration.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from loops.store.columns import core, instant_field, json_field


class Project(SQLModel, table=True):
    """What tokens, connections and workflows belong to."""

    __tablename__ = "loops_projects"
    id: str = Field(primary_key=True)
    name: str
    time_zone: str = "UTC"
    test_account_filters: list[Any] | None = json_field()
    alert_target: dict[str, Any] | None = json_field()
    quotas: dict[str, Any] | None = json_field()
    created_at: datetime = instant_field()


class Token(SQLModel, table=True):
    """An API token: only the digest of it is kept."""

    __tablename__ = "loops_tokens"
    id: str = Field(primary_key=True)
    project_id: str = Field(foreign_key="loops_projects.id", index=True)
    name: str
    role: str
    digest: str = Field(unique=True)
    created_at: datetime = instant_field()
    revoked_at: datetime | None = instant_field(nullable=True)


class Connection(SQLModel, table=True):
    """A stored connection to GitHub, Slack, … ; `secrets` is sealed with LOOPS_SECRET_KEY.

    An id is never given again: it stands in the addresses that senders deliver to, and in the keys of deliveries.
    """

    __tablename__ = "loops_connections"
    __table_args__ = (sa.UniqueConstraint("project_id", "kind", "name"), {"sqlite_autoincrement": True})
    id: int | None = Field(default=None, primary_key=True)
    project_id: str = Field(foreign_key="loops_projects.id")
    kind: str
    name: str
    config: dict[str, Any] = json_field(nullable=False)
    secrets: str
    created_at: datetime = instant_field()
    updated_at: datetime = instant_field()


class Epoch(SQLModel, table=True):
    """Counters that tell every process that something it keeps in memory has changed."""

    __tablename__ = "loops_epochs"
    name: str = Field(primary_key=True)
    value: int


class Workflow(SQLModel, table=True):
    """A workflow's current revision and its life.

    `changed_epoch` is the definitions' epoch of its last change, so that an index reloads only what changed;
    `since_epoch` the epoch at which it last became active: deliveries accepted before then are not for it. `space` is
    where its runs are listed, as `<id>|<name>`.
    """

    __tablename__ = "loops_workflows"
    id: str = Field(primary_key=True)
    project_id: str = Field(foreign_key="loops_projects.id", index=True)
    name: str
    description: str = ""
    status: str
    origin_product: str | None = None
    version: int
    definition: dict[str, Any] = json_field(nullable=False)
    changed_epoch: int = Field(index=True)
    since_epoch: int = 0
    enabled_by: str | None = None
    created_by: str | None = None
    space: str | None = None
    created_at: datetime = instant_field()
    updated_at: datetime = instant_field()


class Revision(SQLModel, table=True):
    """One version of a workflow's definition, never changed: what a run holds on to."""

    __tablename__ = "loops_revisions"
    workflow_id: str = Field(foreign_key="loops_workflows.id", primary_key=True)
    version: int = Field(primary_key=True)
    definition: dict[str, Any] = json_field(nullable=False)
    created_by: str | None = None
    created_at: datetime = instant_field()


class Delivery(SQLModel, table=True):
    """One arrival, raw. The row is the queue: `accepted` waits for dispatch.

    `epoch` is the definitions' epoch in the transaction that accepted it. `body` is zstd; retention empties body and
    headers first and deletes the row (its key) later. `progress` tells how far one of many events is decided.
    """

    __tablename__ = "loops_deliveries"
    __table_args__ = (
        sa.UniqueConstraint("connection_id", "key"),
        sa.Index(
            "loops_deliveries_accepted",
            "id",
            sqlite_where=sa.text("status = 'accepted'"),
            postgresql_where=sa.text("status = 'accepted'"),
        ),
        sa.Index(
            "loops_deliveries_again",
            "subject",
            "id",
            sqlite_where=sa.text("status = 'accepted' AND next_attempt_at IS NOT NULL"),
            postgresql_where=sa.text("status = 'accepted' AND next_attempt_at IS NOT NULL"),
        ),
        # Only where several processes dispatch must the order within a subject be looked up.
        sa.Index(
            "loops_deliveries_subject",
            "subject",
            "id",
            postgresql_where=sa.text("status = 'accepted' AND subject IS NOT NULL"),
        ).ddl_if(dialect="postgresql"),
    )
    id: str = Field(primary_key=True)
    project_id: str
    connection_id: int
    source: str
    key: str
    name: str
    subject: str | None = None
    received_at: datetime = instant_field()
    epoch: int
    verified: bool
    status: str
    reason: str = ""
    attempts: int = 0
    next_attempt_at: datetime | None = instant_field(nullable=True)
    headers: str | None = None
    body: bytes | None = None
    size: int
    runs: int = 0
    progress: dict[str, Any] | None = json_field()


class Event(SQLModel, table=True):
    """An event with what is worth keeping of it: its verdicts, and its body (zstd JSON) when it started a run.

    An event no loop passed, missed narrowly or failed on has no row: it is parsed again from its delivery. `facts` are
    properties that were asked for elsewhere when it was decided, and take the place of those in the delivery.
    """

    __tablename__ = "loops_events"
    project_id: str = Field(primary_key=True)
    source: str = Field(primary_key=True)
    uuid: str = Field(primary_key=True)
    delivery_id: str = Field(index=True)
    position: int = 0
    name: str
    created_at: datetime = instant_field()
    verdicts: list[Any] | None = json_field()
    facts: dict[str, Any] | None = json_field()
    body: bytes | None = None


class Claim(SQLModel, table=True):
    """A fact that a workflow has taken: the same fact under another delivery's id starts nothing again."""

    __tablename__ = "loops_claims"
    workflow_id: str = Field(primary_key=True)
    claim: str = Field(primary_key=True)
    delivery_id: str
    created_at: datetime = instant_field()


class Run(SQLModel, table=True):
    """One execution of one revision for one event.

    `seq` numbers the segment that may act now; `owner` is the segment's claim on the row, which every write of a
    segment checks. `wait` says what a waiting run waits for, `deadline_at` when it goes on by itself. `subject` is the
    event's, `space` the id of the space that its first task named.
    """

    __tablename__ = "loops_runs"
    __table_args__ = (
        sa.Index("loops_runs_recent", "project_id", "created_at"),
        sa.Index("loops_runs_workflow", "workflow_id", "created_at"),
        sa.Index(
            "loops_runs_subject",
            "project_id",
            "subject",
            "created_at",
            sqlite_where=sa.text("subject IS NOT NULL"),
            postgresql_where=sa.text("subject IS NOT NULL"),
        ),
        sa.Index(
            "loops_runs_space",
            "project_id",
            "space",
            "created_at",
            sqlite_where=sa.text("space IS NOT NULL"),
            postgresql_where=sa.text("space IS NOT NULL"),
        ),
        sa.Index(
            "loops_runs_open",
            "status",
            "updated_at",
            sqlite_where=sa.text("status IN ('queued', 'running', 'waiting')"),
            postgresql_where=sa.text("status IN ('queued', 'running', 'waiting')"),
        ),
        sa.Index(
            "loops_runs_cancel",
            "id",
            sqlite_where=sa.text("cancel_requested_at IS NOT NULL AND status = 'running'"),
            postgresql_where=sa.text("cancel_requested_at IS NOT NULL AND status = 'running'"),
        ),
    )
    id: str = Field(primary_key=True)
    project_id: str
    workflow_id: str
    version: int
    source: str
    event_uuid: str
    event_name: str
    subject: str | None = None
    space: str | None = None
    delivery_id: str | None = Field(default=None, index=True)
    replay: int = 0
    status: str
    reason: str = ""
    seq: int = 0
    restarts: int = 0
    owner: str | None = None
    position: str | None = None
    state: dict[str, Any] = json_field(nullable=False)
    wait: dict[str, Any] | None = json_field()
    wake: dict[str, Any] | None = json_field()
    deadline_at: datetime | None = instant_field(nullable=True)
    cancel_requested_at: datetime | None = instant_field(nullable=True)
    cost: float = 0.0
    created_at: datetime = instant_field()
    started_at: datetime | None = instant_field(nullable=True)
    finished_at: datetime | None = instant_field(nullable=True)
    updated_at: datetime = instant_field()


class RunStep(SQLModel, table=True):
    """What one step of a run came to. The row is written before the next step begins, and once."""

    __tablename__ = "loops_run_steps"
    run_id: str = Field(primary_key=True)
    step_id: str = Field(primary_key=True)
    seq: int
    position: int
    type: str
    name: str
    status: str
    result: Any = json_field()
    error: dict[str, Any] | None = json_field()
    log: list[Any] | None = json_field()
    started_at: datetime = instant_field()
    finished_at: datetime | None = instant_field(nullable=True)


class Lease(SQLModel, table=True):
    """A live process of the engine. `expires_at` is by the database's clock."""

    __tablename__ = "loops_leases"
    executor_id: str = Field(primary_key=True)
    role: str
    host: str
    pid: int
    started_at: datetime = instant_field()
    expires_at: datetime = instant_field()


class OutboxMessage(SQLModel, table=True):
    """A message that leaves, stored before it is sent. `key` is its sender's: the same key is the same message.

    `due_at` is when somebody has to look at the row again: to send it, to settle what is uncertain, or to find out that
    whoever was sending it has died; null when nothing is left to do. `version` counts the changes of the row, and each
    change names the one before it. `refs` are the parts that are there, as the service calls them.
    """

    __tablename__ = "loops_outbox"
    __table_args__ = (
        sa.UniqueConstraint("project_id", "key"),
        sa.Index(
            "loops_outbox_due",
            "due_at",
            sqlite_where=sa.text("due_at IS NOT NULL"),
            postgresql_where=sa.text("due_at IS NOT NULL"),
        ),
        sa.Index("loops_outbox_recent", "project_id", "created_at"),
    )
    id: str = Field(primary_key=True)
    project_id: str
    key: str
    run_id: str | None = Field(default=None, index=True)
    step_id: str | None = None
    kind: str
    connection_id: int | None = None
    message: dict[str, Any] = json_field(nullable=False)
    status: str
    version: int = 0
    attempts: int = 0
    parts: int = 0
    refs: list[Any] = json_field(nullable=False)
    missed: list[Any] = json_field(nullable=False)
    code: str = ""
    reason: str = ""
    mend: str = ""
    began_at: datetime | None = instant_field(nullable=True)
    due_at: datetime | None = instant_field(nullable=True)
    created_at: datetime = instant_field()
    updated_at: datetime = instant_field()


metadata = SQLModel.metadata


projects = core(Project)
tokens = core(Token)
connections = core(Connection)
epochs = core(Epoch)
workflows = core(Workflow)
revisions = core(Revision)
deliveries = core(Delivery)
events = core(Event)
claims = core(Claim)
runs = core(Run)
run_steps = core(RunStep)
leases = core(Lease)
outbox = core(OutboxMessage)
