"""skills: what a project teaches its agents."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loops.errors import RequestError
from server.cli.commands import Adder, add_paging
from server.cli.output import plain, say, show, show_list, when
from server.cli.reach import reached

MAIN = "SKILL.md"
_MOST_READ = 200


def add_commands(add: Adder) -> None:
    """skills list, show, apply, delete."""
    summary = "list, show, store and delete the skills of tasks"
    skills = add.group("skills", _list, summary, "list skills, which tasks name in their input skills", _add_listing)
    skills.command("show", _show, "print the SKILL.md of a skill").add_argument("skill", metavar="NAME")
    apply = skills.command("apply", _apply, f"store skills from folders, each with a {MAIN}; what is there is replaced")
    apply.add_argument("folders", nargs="+", metavar="FOLDER")
    skills.command("delete", _delete, "delete a skill").add_argument("skill", metavar="NAME")


def _add_listing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--search", metavar="TEXT", help="only those with this in their name or description")
    add_paging(parser)


def _list(args: argparse.Namespace) -> int:
    with reached(args) as client:
        listed = client.get("skills", search=args.search, limit=args.limit, cursor=args.cursor)
    none = "no skills; loops skills apply FOLDER stores one"
    show_list(args, listed, ("NAME", "FOR", "FILES", "CHANGED"), _row, none)
    return 0


def _row(item: Mapping[str, Any]) -> tuple[object, ...]:
    return item["name"], plain(item["description"]), len(item["paths"]) or "", when(item["updated_at"])


def _show(args: argparse.Namespace) -> int:
    with reached(args) as client:
        found = client.get("skills", args.skill)

    def people() -> None:
        say(plain(found["text"]))
        for path in found["paths"]:
            say(f"file: {plain(path)}")

    show(args, found, people)
    return 0


def _apply(args: argparse.Namespace) -> int:
    from loops.tasks.skill import read_skill

    read = [_folder(Path(one)) for one in args.folders]
    stored = []
    with reached(args) as client:
        for text, files in read:
            name = read_skill(text, files).name
            stored.append(client.put("skills", name, body={"text": text, "files": files}))
    names = ", ".join(one["name"] for one in stored)
    show(args, {"skills": stored}, lambda: say(f"stored: {names}"))
    return 0


def _folder(folder: Path) -> tuple[str, dict[str, str]]:
    """SKILL.md of a folder, and its other files. What begins with a dot is passed over, links are not followed."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    files = {name: path for name, path in named.items() if not any(part.startswith(".") for part in name.split("/"))}
    main = files.pop(MAIN, None)
    if main is None:
        raise RequestError(f"{folder} has no {MAIN}", hint="name the folder of one skill")
    if len(files) > _MOST_READ:  # the service says how many there may be; this is no folder of a skill at all
        raise RequestError(f"{folder} has {len(files)} files", hint="name the folder of one skill")
    return _read(main), {name: _read(path) for name, path in files.items()}


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror}", hint="see who may read it") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{path} is not text", hint="only texts are kept: take it out of the folder") from error


def _delete(args: argparse.Namespace) -> int:
    with reached(args) as client:
        client.delete("skills", args.skill)
    show(args, {"name": args.skill}, lambda: say(f"skill {args.skill} is deleted"))
    return 0
