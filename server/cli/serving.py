"""serve and demo: commands that are a service."""

import argparse
from typing import TYPE_CHECKING

from server.cli.commands import Adder

if TYPE_CHECKING:
    from server.app import Service

_ROLES = ("all", "web", "worker", "scheduler")


def add_commands(add: Adder) -> None:
    """serve, demo."""
    serve = add.command("serve", _serve, "run the service until it is stopped", reaches=False, shows=False)
    serve.add_argument("--role", choices=_ROLES, default="all", help="what this process does (default: all)")
    demo = add.command("demo", _demo, "play the whole job on a throw-away service", reaches=False, shows=False)
    demo.add_argument("--exit", action="store_true", help="leave after the results instead of staying up")


def _serve(args: argparse.Namespace) -> int:
    from server.cli.reach import settings_of, with_key

    settings = with_key(settings_of(args))  # before what takes a second to import: a wrong setting is told at once
    import uvloop

    from server.app import serve
    from server.logs import setup_logging

    log_secrets = setup_logging(settings.log_level, settings.log_format, settings.secret_values)
    return uvloop.run(serve(settings, args.role, _announce, log_secrets))


def _announce(service: "Service") -> None:
    if service.role in {"all", "web"}:
        reached = "" if service.url == service.address else f", reached as {service.url}"
        told = f"Loops listens on {service.address}{reached}"
    else:
        told = f"Loops runs as a {service.role}; its health and metrics: {service.address}/metrics"
    if service.new_token is not None:
        told += (
            "\n\n  This is the first start. Admin token, shown this once:\n\n"
            f"    {service.new_token}\n\n"
            "  Pages ask for it; programs send it as Authorization: Bearer. More: loops token create\n"
        )
    # At once: whoever waits for the first line finds the token as well.
    print(told, flush=True)


def _demo(args: argparse.Namespace) -> int:
    import uvloop

    from server.demo import run_demo

    return uvloop.run(run_demo(leave=args.exit))
