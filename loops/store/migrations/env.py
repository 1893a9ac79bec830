"""Alembic's entry: runs on the connection that `loops.store.database.migrate` hands over."""

from alembic import context

from loops.store.schema import metadata


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    # The durable engine keeps its tables in the same database; they are its own to migrate.
    return kind != "table" or (name or "").startswith("loops_")


connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    version_table="loops_schema",
    include_name=_ours,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
