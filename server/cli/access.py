"""integrations, token: what the service is connected to, and who may use it."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loops.errors import Fault, RequestError, StoreError
from server.cli import integrations as asked_of
from server.cli.commands import Adder, add_paging
from server.cli.output import complain, complain_of, say, show, show_list, when
from server.cli.reach import reached

_KINDS = ("github", "slack", "smtp", "posthog", "mcp")
_ROLES = ("viewer", "editor", "admin")


def add_commands(add: Adder) -> None:
    """integrations, token."""
    summary = "list, create, change and delete connections"
    integrations = add.group("integrations", _list, summary, "list connections", _add_listing)
    create = integrations.command("create", _create, "store a connection")
    create.add_argument("kind", choices=_KINDS, metavar="KIND", help=", ".join(_KINDS))
    create.add_argument("--name", required=True, help="tells it from others of its kind")
    _add_settings(create)
    update = integrations.command("update", _update, "change settings of a connection; its hook stays the same")
    update.add_argument("integration", metavar="ID")
    _add_settings(update)
    update.add_argument(
        "--unset", metavar="KEY", action="append", default=[], help="take a setting away; may be repeated"
    )
    asked_of.add_commands(integrations)
    integrations.command(
        "rotate", _rotate, "encrypt the secrets of all connections with the first key of LOOPS_SECRET_KEY"
    )
    delete = integrations.command("delete", _delete, "delete a connection, unless workflows need it")
    delete.add_argument("integration", metavar="ID")
    delete.add_argument("--force", action="store_true", help="also one that workflows need")
    summary = "make, list and revoke API tokens"
    tokens = add.group("token", _list_tokens, summary, "list tokens, the newest first", add_paging)
    make = tokens.command("create", _create_token, "make a token, which is shown once")
    make.add_argument("--role", choices=_ROLES, required=True, help="what it may do: read, change, or all")
    make.add_argument("--name", help="tells it from others (default: its role)")
    tokens.command("revoke", _revoke_token, "revoke a token, and end its sessions").add_argument("token", metavar="ID")


def _add_listing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kind", choices=(*_KINDS, "webhook"), help="only these")
    add_paging(parser)


def _add_settings(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", dest="settings", metavar="KEY=VALUE", action="append", default=[], type=_setting,
        help="a setting; KEY=@FILE reads it from a file; may be repeated",
    )  # fmt: skip


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError("not KEY=VALUE")
    return key, value


def _list(args: argparse.Namespace) -> int:
    with reached(args) as client:
        listed = client.get("integrations", kind=args.kind, limit=args.limit, cursor=args.cursor)
    columns = ("ID", "KIND", "NAME", "SECRETS", "CONFIG", "HOOK")
    show_list(args, listed, columns, _row, "no connections; loops integrations create KIND --name NAME stores one")
    return 0


def _row(item: Mapping[str, Any]) -> tuple[object, ...]:
    secrets = "cannot be opened" if item["secrets"] is None else ", ".join(item["secrets"])
    config = ", ".join(f"{key}={value}" for key, value in item["config"].items())
    return item["id"], item["kind"], item["name"], secrets, config, item["hook_url"] or ""


def _create(args: argparse.Namespace) -> int:
    settings = _given(args.settings)
    with reached(args) as client:
        made = client.post("integrations", body={"kind": args.kind, "name": args.name, "settings": settings})
    _warn(made)
    told = {"id": made["id"], "hook_url": made["hook_url"]}
    hook = f"\nhook: {made['hook_url']}" if made["hook_url"] else ""
    show(args, told, lambda: say(f"{args.kind} connection {made['id']} is stored{hook}"))
    return 0


def _warn(item: Mapping[str, Any]) -> None:
    for one in item["warnings"]:
        complain_of(Fault("", one["message"], one["hint"]), "warning")


def _update(args: argparse.Namespace) -> int:
    settings = _given([*args.settings, *((key, None) for key in args.unset)])
    with reached(args) as client:
        changed = client.patch("integrations", args.integration, body={"settings": settings})
    _warn(changed)
    told = {"id": changed["id"], "hook_url": changed["hook_url"]}
    show(args, told, lambda: say(f"{changed['kind']} connection {changed['id']} is changed"))
    return 0


def _rotate(args: argparse.Namespace) -> int:
    with reached(args) as client:
        told = client.post("integrations", "rotate")
    done, failed = told["resealed"], told["unreadable"]
    show(args, told, lambda: say(f"secrets of {done} connection{'' if done == 1 else 's'} are under the first key"))
    if failed:
        complain(
            StoreError(
                f"those of {failed} can be opened with none of the keys, and are left as they are",
                hint="loops doctor names them",
            )
        )
    return 1 if failed else 0


def _given(pairs: Sequence[tuple[str, str | None]]) -> dict[str, str | None]:
    """Settings as they are sent; one without a value is to be taken away."""
    settings = {key: None if value is None else _value(key, value) for key, value in pairs}
    if len(settings) < len(pairs):
        raise RequestError("a setting is given twice", hint="give each setting once")
    return settings


def _value(key: str, value: str) -> str:
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text("utf-8")
    except OSError as error:
        message = f"{key}: {value[1:]} cannot be read: {error.strerror}"
        raise RequestError(message, hint="name a file after the @") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{key}: {value[1:]} is not text", hint="name a text file after the @") from error


def _delete(args: argparse.Namespace) -> int:
    with reached(args) as client:
        client.delete("integrations", args.integration, force="true" if args.force else None)
    show(args, {"id": args.integration}, lambda: say(f"connection {args.integration} is deleted"))
    return 0


def _create_token(args: argparse.Namespace) -> int:
    with reached(args) as client:
        made = client.post("tokens", body={"role": args.role, "name": args.name or args.role})
    show(args, {"token": made["token"]}, lambda: say(f"{made['token']}\n(shown this once; its id is {made['id']})"))
    return 0


def _list_tokens(args: argparse.Namespace) -> int:
    with reached(args) as client:
        listed = client.get("tokens", limit=args.limit, cursor=args.cursor)
    show_list(args, listed, ("NAME", "ROLE", "MADE", "REVOKED", "ID"), _token_row, "no tokens")
    return 0


def _token_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    return item["name"], item["role"], when(item["created_at"]), when(item["revoked_at"]), item["id"]


def _revoke_token(args: argparse.Namespace) -> int:
    with reached(args) as client:
        client.delete("tokens", args.token)
    show(args, {"id": args.token}, lambda: say(f"token {args.token} is revoked"))
    return 0
