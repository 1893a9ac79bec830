"""The first schema."""

import sqlalchemy as sa
from alembic import op

from loops.store.columns import Instant, Json

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "loops_claims",
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("claim", sa.String(), nullable=False),
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("workflow_id", "claim"),
    )
    op.create_table(
        "loops_deliveries",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("received_at", Instant(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("verified", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", Instant(), nullable=True),
        sa.Column("headers", sa.String(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("connection_id", "key"),
    )
    op.create_index(
        "loops_deliveries_accepted",
        "loops_deliveries",
        ["id"],
        unique=False,
        sqlite_where=sa.text("status = 'accepted'"),
        postgresql_where=sa.text("status = 'accepted'"),
    )
    op.create_index(
        "loops_deliveries_again",
        "loops_deliveries",
        ["subject", "id"],
        unique=False,
        sqlite_where=sa.text("status = 'accepted' AND next_attempt_at IS NOT NULL"),
        postgresql_where=sa.text("status = 'accepted' AND next_attempt_at IS NOT NULL"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.create_index(
            "loops_deliveries_subject",
            "loops_deliveries",
            ["subject", "id"],
            unique=False,
            postgresql_where=sa.text("status = 'accepted' AND subject IS NOT NULL"),
        )
    op.create_table(
        "loops_epochs",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "loops_events",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("uuid", sa.String(), nullable=False),
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("verdicts", Json, nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("project_id", "source", "uuid"),
    )
    op.create_index(op.f("ix_loops_events_delivery_id"), "loops_events", ["delivery_id"], unique=False)
    op.create_table(
        "loops_leases",
        sa.Column("executor_id", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("started_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("executor_id"),
    )
    op.create_table(
        "loops_projects",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "loops_run_steps",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("result", Json, nullable=True),
        sa.Column("error", Json, nullable=True),
        sa.Column("log", Json, nullable=True),
        sa.Column("started_at", Instant(), nullable=False),
        sa.Column("finished_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "step_id"),
    )
    op.create_table(
        "loops_runs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("event_uuid", sa.String(), nullable=False),
        sa.Column("event_name", sa.String(), nullable=False),
        sa.Column("delivery_id", sa.String(), nullable=True),
        sa.Column("replay", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("position", sa.String(), nullable=True),
        sa.Column("state", Json, nullable=False),
        sa.Column("wait", Json, nullable=True),
        sa.Column("wake", Json, nullable=True),
        sa.Column("deadline_at", Instant(), nullable=True),
        sa.Column("cancel_requested_at", Instant(), nullable=True),
        sa.Column("cost", sa.Float(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("started_at", Instant(), nullable=True),
        sa.Column("finished_at", Instant(), nullable=True),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_loops_runs_delivery_id"), "loops_runs", ["delivery_id"], unique=False)
    op.create_index(
        "loops_runs_cancel",
        "loops_runs",
        ["id"],
        unique=False,
        sqlite_where=sa.text("cancel_requested_at IS NOT NULL AND status = 'running'"),
        postgresql_where=sa.text("cancel_requested_at IS NOT NULL AND status = 'running'"),
    )
    op.create_index(
        "loops_runs_open",
        "loops_runs",
        ["status", "updated_at"],
        unique=False,
        sqlite_where=sa.text("status IN ('queued', 'running', 'waiting')"),
        postgresql_where=sa.text("status IN ('queued', 'running', 'waiting')"),
    )
    op.create_index("loops_runs_recent", "loops_runs", ["project_id", "created_at"], unique=False)
    op.create_index("loops_runs_workflow", "loops_runs", ["workflow_id", "created_at"], unique=False)
    op.create_table(
        "loops_connections",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("config", Json, nullable=False),
        sa.Column("secrets", sa.String(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["loops_projects.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project_id", "kind", "name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "loops_tokens",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("revoked_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["loops_projects.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
    )
    op.create_index(op.f("ix_loops_tokens_project_id"), "loops_tokens", ["project_id"], unique=False)
    op.create_table(
        "loops_workflows",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("origin_product", sa.String(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", Json, nullable=False),
        sa.Column("changed_epoch", sa.Integer(), nullable=False),
        sa.Column("since_epoch", sa.Integer(), nullable=False),
        sa.Column("enabled_by", sa.String(), nullable=True),
        sa.Column("created_by", sa.String(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["loops_projects.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_loops_workflows_changed_epoch"), "loops_workflows", ["changed_epoch"], unique=False)
    op.create_index(op.f("ix_loops_workflows_project_id"), "loops_workflows", ["project_id"], unique=False)
    op.create_table(
        "loops_revisions",
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", Json, nullable=False),
        sa.Column("created_by", sa.String(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workflow_id"],
            ["loops_workflows.id"],
        ),
        sa.PrimaryKeyConstraint("workflow_id", "version"),
    )
