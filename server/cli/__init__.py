"""The command line: `loops`, also `python -m server`.

Every command speaks to the REST API, of a running service or, when none answers, of one in this process. Modules of
commands import what they need inside their functions, so that help comes at once.
"""

from server.cli.entry import main

__all__ = ["main"]
