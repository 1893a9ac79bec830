import os
import sys
from collections.abc import Sequence

from loops.errors import LoopsError
from server.cli.output import complain
from server.cli.parser import build_parser


def run(argv: Sequence[str] | None = None) -> int:
    """See server.cli.main."""
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as over:  # argparse has said what is wrong, or shown its help
        return int(over.code or 0)
    try:
        code: int = args.execute(args)
        sys.stdout.flush()
    except LoopsError as error:
        complain(error)
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 1
    except BrokenPipeError:
        # Whoever read our output has enough. Nothing may be flushed into the closed pipe at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code
