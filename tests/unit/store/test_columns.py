from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from loops.store.columns import Instant, Json, from_micros, to_micros

MOMENT = datetime(2026, 11, 30, 12, 30, 15, 123456, tzinfo=UTC)


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_survives_its_stored_form_exactly(instant):
    assert from_micros(to_micros(instant)) == instant


def test_an_instant_is_the_same_whatever_zone_it_is_told_in():
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert to_micros(elsewhere) == to_micros(MOMENT)


def test_instants_sort_as_they_are_stored():
    assert to_micros(MOMENT) < to_micros(MOMENT + timedelta(microseconds=1))


@pytest.fixture
def table():
    engine = sa.create_engine("sqlite://")
    table = sa.Table("t", sa.MetaData(), sa.Column("at", Instant), sa.Column("value", Json))
    table.create(engine)
    with engine.begin() as connection:
        yield table, connection
    engine.dispose()


def test_a_stored_instant_comes_back_aware_and_in_utc(table):
    rows, connection = table
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=-8)))
    connection.execute(rows.insert().values(at=elsewhere))
    found = connection.execute(sa.select(rows.c.at)).scalar_one()
    assert (found, found.tzinfo) == (MOMENT, UTC)


def test_a_datetime_without_a_zone_is_refused(table):
    rows, connection = table
    with pytest.raises(sa.exc.StatementError, match="no time zone"):
        connection.execute(rows.insert().values(at=MOMENT.replace(tzinfo=None)))


def test_no_value_is_sql_null_in_either_column(table):
    rows, connection = table
    connection.execute(rows.insert().values(at=None, value=None))
    nothing = sa.select(sa.func.count()).select_from(rows).where(rows.c.at.is_(None), rows.c.value.is_(None))
    assert connection.execute(nothing).scalar_one() == 1
