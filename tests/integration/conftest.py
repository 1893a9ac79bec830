from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
import pytest_asyncio

from server.app import Service
from tests.conftest import new_postgres, new_sqlite
from tests.integration.boxes import bwrap, checkout, either, work_dir  # noqa: F401 - fixtures
from tests.integration.serving import Api, fresh_project, running, settings_for


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def module_database_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database of each kind in turn with all tables and no row, for all tests of a module."""
    if request.param == "sqlite":
        yield new_sqlite(request.getfixturevalue("sqlite_template"), tmp_path_factory.mktemp("database"))
        return
    server, template = (request.getfixturevalue(f"postgres_{name}") for name in ("server", "template"))
    with new_postgres(server, template) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """One running service for all tests of a module: the engine takes seconds to start."""
    async with running(settings_for(tmp_path_factory.mktemp("d"), module_database_url)) as running_service:
        yield running_service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(service: Service) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(service.url, cookie_jar=aiohttp.DummyCookieJar()) as open_session:
        yield open_session


@pytest_asyncio.fixture(loop_scope="module")
async def api(service: Service, session: aiohttp.ClientSession) -> Api:
    """An admin of a project that no other test uses."""
    return await fresh_project(service, session)
