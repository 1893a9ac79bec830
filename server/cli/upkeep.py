"""migrate, doctor: looking after an installation."""

import argparse
import os

from server.cli.commands import Adder
from server.cli.output import say, show, tell_checks


def add_commands(add: Adder) -> None:
    """migrate, doctor."""
    add.command("migrate", _migrate, "bring the database to this release's schema", reaches=False)
    add.command("doctor", _doctor, "check settings, data folder, database, secrets, tokens, service", reaches=False)


def _migrate(args: argparse.Namespace) -> int:
    from loops.runs.engine import prepare_engine
    from loops.store.database import migrate
    from server.cli.reach import settings_of

    settings = settings_of(args)
    schema = migrate(settings.database_url)
    prepare_engine(settings.database_url)
    show(args, {"schema": schema}, lambda: say(f"the database is at schema {schema}"))
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from server.checks.check import told
    from server.cli.doctor import examine

    found = told(list(examine(args.config, os.environ)))
    show(args, found, lambda: tell_checks(found["checks"]))
    return 0 if found["healthy"] else 1
