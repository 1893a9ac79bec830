from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.victims import Places


@pytest.fixture(scope="session")
def places(
    postgres_server: Any, postgres_template: str, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Places:
    """Where the services of a test lie."""
    return Places(postgres_server, postgres_template, sqlite_template, tmp_path_factory.mktemp)
