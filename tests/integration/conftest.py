from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
import pytest_asyncio

from server.app import Service
from tests.conftest import empty_postgres
from tests.integration.serving import Api, fresh_project, running, settings_for


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def module_database_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty database of each kind in turn, for all tests of a module."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('database') / 'loops.db'}"
        return
    with empty_postgres(request.getfixturevalue("postgres_server")) as url:
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
