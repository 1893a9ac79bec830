"""/skills: what a project teaches its agents."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.errors import RequestError
from loops.event import JsonValue
from loops.store import skills as store
from loops.store.skills import SkillRow
from loops.tasks.skill import Skill, as_text, check_skill_name, read_skill
from server.api.call import Call, answer, listed


async def listing(call: Call) -> web.Response:
    """Skills by name, without what they say; `search` finds words of a name or description. A task names those that it
    is given, up to ten, in its input `skills`."""
    given = call.query("search", page=True)
    page = call.page(given, 1)
    after = page.after[0] if page.after else None
    rows = await call.services.reader.read(
        lambda connection: store.page(
            connection, call.project, limit=page.limit + 1, after=after, search=given.get("search")
        )
    )
    return listed(rows, page.limit, lambda row: (row.name,), _item)


async def read(call: Call) -> web.Response:
    """One skill whole: `text` is its SKILL.md, `files` what else lies in its folder, by path."""
    name = call.piece("id")
    row = await call.services.reader.read(lambda connection: store.get(connection, call.project, name))
    return answer(_whole(row))


async def create(call: Call) -> web.Response:
    """Store a skill: `text` is a SKILL.md whose front matter names and describes it, `files` are further texts by their
    path in its folder."""
    skill = _skill(await call.document("text", "files"))
    by, now = call.principal.token_id, call.services.clock.now()
    row = await call.services.writer.run(lambda connection: _inserted(connection, call.project, skill, by, now))
    return answer(_whole(row), 201)


async def replace(call: Call) -> web.Response:
    """Make a skill be what `text` and `files` say, made where there is none of this name. Tasks under way read it as it
    is from now on."""
    name = check_skill_name(call.piece("id"))
    skill = _skill(await call.document("text", "files"))
    if skill.name != name:
        raise RequestError(f"the text names the skill {skill.name!r}", hint=f"name it {name}", path="text")
    by, now = call.principal.token_id, call.services.clock.now()

    def put(connection: sa.Connection) -> tuple[SkillRow, bool]:
        found = store.named(connection, call.project, [name])
        if not found:
            return _inserted(connection, call.project, skill, by, now), True
        parts = (skill.description, skill.body, skill.files)
        return store.change(connection, found[0], *parts, now), False

    row, made = await call.services.writer.run(put)
    return answer(_whole(row), 201 if made else 200)


async def delete(call: Call) -> web.Response:
    """Delete a skill. A workflow that names it cannot be saved any more, and its tasks are refused."""
    name = call.piece("id")
    await call.services.writer.run(lambda connection: store.delete(connection, call.project, name))
    return web.Response(status=204)


def _inserted(connection: sa.Connection, project: str, skill: Skill, by: str, now: datetime) -> SkillRow:
    return store.insert(
        connection,
        project_id=project,
        name=skill.name,
        description=skill.description,
        body=skill.body,
        files=skill.files,
        by=by,
        now=now,
    )


def _skill(body: Mapping[str, JsonValue]) -> Skill:
    text, files = body.get("text"), body.get("files") or {}
    if not isinstance(text, str):
        raise RequestError("text is missing", hint="the whole of a SKILL.md", path="text")
    if not isinstance(files, dict):
        raise RequestError("files are no object", hint='as {"references/forms.md": "…"}', path="files")
    texts: dict[str, str] = {}
    for path, one in files.items():
        if not isinstance(one, str):
            raise RequestError("is no text", hint="only texts are kept", path=f"files.{path[:60]}")
        texts[path] = one
    return read_skill(text, texts)


def _item(row: SkillRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "description": row.description,
        "paths": sorted(row.files),
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


def _whole(row: SkillRow) -> dict[str, Any]:
    text = as_text(Skill(row.name, row.description, row.body))
    return {**_item(row), "text": text, "files": dict(row.files)}
