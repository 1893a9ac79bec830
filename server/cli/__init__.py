"""The command line: `loops`, also `python -m server`.

Every command speaks to the REST API, of a running service or, when none answers, of one in this process. Modules of
commands import what they need inside their functions, so that help comes at once.
"""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 1 failed, 2 wrong usage."""
    from server.cli.entry import run

    return run(argv)
