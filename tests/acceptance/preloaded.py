"""What every service that is forked for a test finds done: its modules are loaded, the patterns of its routes compiled.

Nothing here starts a thread or opens a connection, so a fork of the process that has imported this is whole.
"""

import gc

from aiohttp import web

from server.api import register_api
from tests.acceptance import busy, killer, repository_service

__all__ = ["busy", "killer", "repository_service"]

register_api(web.Application())
# A service's own full pass walks what it made itself, and copies no page that it shares with the others.
gc.collect()
gc.freeze()
