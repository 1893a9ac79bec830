"""/test-account-filters: which persons of a project are its own, so that triggers may leave their events out."""

from dataclasses import replace as replace_in

from aiohttp import web

from loops.errors import FilterError, RequestError
from loops.event import JsonValue
from loops.filters import compile_filter
from loops.store import projects
from server.api.call import Call, answer

MOST_FILTERS = 100


async def read(call: Call) -> web.Response:
    """The property filters that hold for every trigger with filter_test_accounts."""
    found = await call.services.reader.read(lambda connection: projects.settings(connection, call.project))
    return answer({"filters": list(found.test_account_filters)})


async def replace(call: Call) -> web.Response:
    """Set them; the next event is held against them."""
    filters = _checked((await call.document("filters")).get("filters"))
    await call.services.writer.run(
        lambda connection: projects.set_test_account_filters(connection, call.project, filters)
    )
    return answer({"filters": filters})


def _checked(filters: JsonValue) -> list[JsonValue]:
    if not isinstance(filters, list):
        raise RequestError("filters must be a list of property filters", hint='as {"filters": []}', path="filters")
    if len(filters) > MOST_FILTERS:
        raise RequestError(f"there are {len(filters)} filters; {MOST_FILTERS} is the limit", path="filters")
    try:
        compile_filter({"properties": filters}, path="body")
    except FilterError as error:
        told = [replace_in(fault, path=fault.path.replace("body.properties", "filters", 1)) for fault in error.faults]
        raise FilterError(told) from error
    return filters
