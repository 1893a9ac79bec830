"""Column types that mean the same on SQLite and Postgres."""

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# SQLAlchemy writes None as SQL NULL here, never as JSON null: "no value" has one form in the tables.
Json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def to_micros(instant: datetime) -> int:
    """Microseconds since 1970 of an aware datetime."""
    return (instant - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The aware UTC datetime of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=micros)


def database_now(connection: sa.Connection) -> datetime:
    """The present instant by the database's clock, which all processes share."""
    if connection.dialect.name != "postgresql":
        return datetime.now(UTC)
    micros = connection.execute(
        sa.text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    ).scalar_one()
    return from_micros(micros)


class Instant(sa.types.TypeDecorator[datetime]):
    """An aware datetime, stored as microseconds since 1970: exact, sortable, free of zones on both databases."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> int | None:  # noqa: ANN401, ARG002
        """Refuses a naive datetime: guessing its zone is how hours get lost."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; pass an aware datetime")
        return to_micros(value)

    def process_result_value(self, value: int | None, dialect: Any) -> datetime | None:  # noqa: ANN401, ARG002
        """Always UTC."""
        return None if value is None else from_micros(value)


def instant_field(*, nullable: bool = False) -> Any:  # noqa: ANN401
    """A field that holds an instant."""
    return Field(default=None, sa_type=Instant, nullable=nullable)


def json_field(*, nullable: bool = True) -> Any:  # noqa: ANN401
    """A field that holds JSON."""
    return Field(default=None, sa_type=Json, nullable=nullable)


def core(model: type[SQLModel]) -> sa.Table:
    """The Core table of a class."""
    table: sa.Table = model.__table__  # type: ignore[attr-defined]
    return table
