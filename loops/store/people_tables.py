"""The tables of persons and groups; see tables.py."""

from datetime import datetime
from typing import Any

from sqlmodel import Field, SQLModel

from loops.store.columns import Instant, core, instant_field, json_field


class Person(SQLModel, table=True):
    """What PostHog events said of a distinct id. `seen_at` is exact to a day."""

    __tablename__ = "loops_persons"
    project_id: str = Field(primary_key=True)
    distinct_id: str = Field(primary_key=True)
    properties: dict[str, Any] = json_field(nullable=False)
    created_at: datetime = instant_field()
    seen_at: datetime = Field(default=None, sa_type=Instant, nullable=False, index=True)


class Group(SQLModel, table=True):
    """What PostHog events said of a group, such as a company. `seen_at` is exact to a day."""

    __tablename__ = "loops_groups"
    project_id: str = Field(primary_key=True)
    type: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    properties: dict[str, Any] = json_field(nullable=False)
    created_at: datetime = instant_field()
    seen_at: datetime = Field(default=None, sa_type=Instant, nullable=False, index=True)


persons = core(Person)
groups = core(Group)
