"""The table of skills; see tables.py."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from loops.store.columns import core, instant_field, json_field


class Skill(SQLModel, table=True):
    """What a project teaches its agents: SKILL.md parted into name, description and `body`, and the further `files` of
    its folder, `{path: text}`."""

    __tablename__ = "loops_skills"
    __table_args__ = (sa.UniqueConstraint("project_id", "name"),)
    id: str = Field(primary_key=True)
    project_id: str
    name: str
    description: str
    body: str
    files: dict[str, str] = json_field(nullable=False)
    created_by: str | None = None
    created_at: datetime = instant_field()
    updated_at: datetime = instant_field()


skills = core(Skill)
