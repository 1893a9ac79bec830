"""A skill: a folder with SKILL.md, whose front matter names and describes it. Read, and held to its limits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import yaml

from loops.errors import RequestError
from loops.invisible import without_invisible
from loops.storable import storable_text

MAIN = "SKILL.md"
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1_024
LONGEST_FILE = 64_000
"""Bytes of one file, SKILL.md among them."""
MOST_FILES = 50
MOST_BYTES = 512_000
"""Of all files of one skill."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_FRONT = re.compile(r"\A(?:\ufeff)?---[ \t]*\r?\n(.{0,8000}?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LONGEST_PATH = 200
_FORM = "begin it with ---, name: …, description: …, ---"


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that was read. `body` is SKILL.md behind its front matter, `files` what else lies in its folder."""

    name: str
    description: str
    body: str
    files: Mapping[str, str] = field(default_factory=dict)


def read_skill(text: str, files: Mapping[str, str] | None = None) -> Skill:
    """The skill whose SKILL.md says `text`. Raises RequestError, whose path is `text` or the place in `files`."""
    found = _FRONT.match(text)
    if found is None:
        raise RequestError(f"{MAIN} has no front matter", hint=_FORM, path="text")
    try:
        front = yaml.safe_load(found[1])
    except (yaml.YAMLError, RecursionError) as error:
        raise RequestError(f"the front matter of {MAIN} is not YAML", hint=_FORM, path="text") from error
    if not isinstance(front, dict):
        raise RequestError(f"the front matter of {MAIN} is no object", hint=_FORM, path="text")
    name, description = check_skill_name(front.get("name")), _description(front.get("description"))
    _check_size(MAIN, text, "text")
    others = _checked_files(files or {})
    if (
        len(text.encode("utf-8", "replace")) + sum(len(one.encode("utf-8", "replace")) for one in others.values())
        > MOST_BYTES
    ):
        raise RequestError(f"the skill holds more than {MOST_BYTES} bytes", hint="part it into several", path="files")
    return Skill(name, description, storable_text(text[found.end() :]).strip(), others)


def check_skill_name(given: object) -> str:
    """The name; RequestError where it is none."""
    if not isinstance(given, str) or not _NAME.fullmatch(given) or len(given) > LONGEST_NAME:
        hint = f"small letters, digits, - and _, at most {LONGEST_NAME}, as find-the-cause"
        raise RequestError("the skill's name does not fit", hint=hint, path="name")
    return given


def _description(given: object) -> str:
    text = " ".join(without_invisible(given).split()) if isinstance(given, str) else ""
    if not text or len(text) > LONGEST_DESCRIPTION:
        hint = f"say in 1 to {LONGEST_DESCRIPTION} characters what the skill is for: agents choose by it"
        raise RequestError("the skill's description does not fit", hint=hint, path="description")
    return text


def check_file_path(given: str) -> str:
    """The path of a file inside a skill's folder; RequestError where it could lie anywhere else."""
    path = PurePosixPath(given)
    is_inside = given == path.as_posix() and not path.is_absolute() and ".." not in path.parts and given != "."
    if not is_inside or "\\" in given or not given.isprintable() or len(given) > _LONGEST_PATH:
        raise RequestError(
            f"{given[:_LONGEST_PATH]!r} is no file inside the skill's folder",
            hint="a relative path without .., as references/forms.md",
            path="files",
        )
    return given


def _checked_files(files: Mapping[str, str]) -> dict[str, str]:
    if len(files) > MOST_FILES:
        raise RequestError(f"the skill has {len(files)} files; {MOST_FILES} is the limit", path="files")
    kept = {}
    for path, text in sorted(files.items()):
        if check_file_path(path) == MAIN:
            raise RequestError(f"{MAIN} stands among the further files", hint="give it as text", path="files")
        _check_size(path, text, f"files.{path}")
        kept[path] = storable_text(text)
    return kept


def _check_size(name: str, text: str, path: str) -> None:
    size = len(text.encode("utf-8", "replace"))
    if size > LONGEST_FILE:
        raise RequestError(f"{name} has {size} bytes; {LONGEST_FILE} is the limit", hint="part it", path=path)


def as_text(skill: Skill) -> str:
    """SKILL.md as a file: what `read_skill` reads back."""
    front = yaml.safe_dump({"name": skill.name, "description": skill.description}, allow_unicode=True, sort_keys=False)
    return f"---\n{front}---\n\n{skill.body}\n"
