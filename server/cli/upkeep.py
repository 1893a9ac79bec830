"""migrate, doctor: looking after an installation."""

import argparse
import dataclasses
import os

from server.cli.commands import Adder
from server.cli.output import plain, say, show


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
    from server.cli.doctor import examine

    checks = list(examine(args.config, os.environ))
    healthy = all(check.state != "failed" for check in checks)
    told = {"healthy": healthy, "checks": [dataclasses.asdict(check) for check in checks]}

    def people() -> None:
        for check in checks:
            say(f"{check.state:<8} {check.name}: {plain(check.message)}")
            if check.hint:
                say(f"         {plain(check.hint)}")

    show(args, told, people)
    return 0 if healthy else 1
