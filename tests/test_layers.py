"""The promises of the folders, held against the repository, and each check against trees that break its rule."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.layering import (
    arrow_faults,
    cycle_faults,
    length_faults,
    modules,
    name_faults,
    package_faults,
    purity_faults,
    says_nothing,
    settings_faults,
)

ROOT = Path(__file__).parents[1]

CHECKS = [arrow_faults, cycle_faults, purity_faults, settings_faults, name_faults, length_faults, package_faults]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_repository_keeps_its_promises(check: Callable[[Path], list[str]]) -> None:
    assert modules(ROOT)
    assert check(ROOT) == []


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    def make(files: dict[str, str]) -> Path:
        for place, text in files.items():
            path = tmp_path / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("config/a.py", "import loops.event"),
        ("config/a.py", "from server import app"),
        ("loops/a.py", "from triggers.source import Source"),
        ("loops/a.py", "import notify"),
        ("loops/deep/er/a.py", "import os\nimport json, server.app"),
        ("loops/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from server.app import App"),
        ("loops/a.py", "def late():\n    from server import app"),
        ("loops/a.py", "import importlib\nimportlib.import_module('triggers.github')"),
        ("loops/runs/a.py", "from ...triggers import source"),
        ("triggers/a.py", "from notify.outbox import send"),
        ("triggers/github/a.py", "import server.auth"),
        ("notify/a.py", "import triggers.matcher"),
        ("server/a.py", "from tests.doubles import github"),
    ],
)
def test_an_import_against_the_arrow_is_found(tree, place: str, text: str) -> None:
    (fault,) = arrow_faults(tree({place: text}))
    assert fault.startswith(f"{place}:")


def test_imports_along_the_arrow_are_no_faults(tree) -> None:
    root = tree(
        {
            "loops/a.py": "import json\nfrom config.secret_text import SecretText\nfrom . import b\nfrom .b import c",
            "triggers/a.py": "from loops.event import Event\nimport triggers.source",
            "notify/a.py": "import loops.errors",
            "server/a.py": "import triggers, notify, loops, config, server.auth",
        }
    )
    assert arrow_faults(root) == []


def test_packages_that_import_each_other_by_a_detour_are_found(tree) -> None:
    root = tree(
        {
            "loops/runs/__init__.py": "",
            "loops/runs/a.py": "from loops.store.b import x",
            "loops/store/__init__.py": "",
            "loops/store/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from loops.c import y",
            "loops/c.py": "def late():\n    from loops.runs import a",
            "loops/d.py": "import loops.c",
        }
    )
    assert cycle_faults(root) == ["import each other: loops.c, loops.runs, loops.store"]


def test_modules_of_one_package_may_lean_on_each_other(tree) -> None:
    root = tree(
        {
            "loops/__init__.py": "",
            "loops/runs/__init__.py": "from loops.runs.a import x",
            "loops/runs/a.py": "from loops.runs import b\nfrom loops import errors",
            "loops/runs/b.py": "import loops.runs.a",
            "loops/errors.py": "",
        }
    )
    assert cycle_faults(root) == []


def test_the_pure_part_of_a_package_may_be_known_to_what_its_other_part_uses(tree) -> None:
    files = {
        "loops/runs/state.py": "",
        "loops/runs/engine.py": "from loops.store import runs\nfrom loops.runs import state",
        "loops/store/__init__.py": "",
        "loops/store/runs.py": "from loops.runs.state import RunState",
    }
    assert cycle_faults(tree(files)) == []


def test_a_pure_part_that_leans_on_the_other_part_is_found(tree) -> None:
    root = tree({"loops/runs/state.py": "import loops.runs.clock", "loops/runs/clock.py": "import loops.runs.state"})
    assert cycle_faults(root) == ["import each other: loops.runs, loops.runs (pure)"]


@pytest.mark.parametrize(
    "place",
    [
        "loops/errors.py",
        "loops/filters_text.py",
        "loops/definition/deep/schema.py",
        "loops/expressions/hog.py",
        "loops/runs/state.py",
        "loops/tasks/quota.py",
        "triggers/github/event.py",
        "triggers/matcher.py",
        "triggers/masking.py",
        "triggers/brakes.py",
        "triggers/source.py",
        "server/auth.py",
    ],
)
@pytest.mark.parametrize("text", ["import {}", "from {}.x import y", "def late():\n    import {}"])
@pytest.mark.parametrize("library", ["aiohttp", "sqlalchemy", "pydantic_ai"])
def test_a_pure_module_that_names_an_outside_library_is_found(tree, place: str, text: str, library: str) -> None:
    assert purity_faults(tree({place: text.format(library)})) == [f"{place}: imports {library}"]


def test_a_pure_module_that_loads_an_outside_library_through_others_is_found(tree) -> None:
    root = tree(
        {
            "loops/runs/__init__.py": "",
            "loops/runs/state.py": "from loops.store import names",
            "loops/store/__init__.py": "from loops.store.tables import Table",
            "loops/store/names.py": "",
            "loops/store/tables.py": "import sqlmodel",
        }
    )
    assert purity_faults(root) == ["loops/runs/state.py: loads sqlmodel through loops.store.tables"]


def test_what_is_imported_for_types_alone_is_not_loaded(tree) -> None:
    root = tree(
        {
            "loops/runs/state.py": "import loops.ports",
            "loops/ports.py": "import typing\nif typing.TYPE_CHECKING:\n    from sqlalchemy import Connection",
            "loops/runs/engine.py": "import dbos",
        }
    )
    assert purity_faults(root) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("loops/a.py", "import config.settings"),
        ("loops/a.py", "from config import settings"),
        ("triggers/a.py", "from config.settings import Settings"),
        ("notify/a.py", "import os\nx = os.environ['HOME']"),
        ("config/a.py", "import os\nx = os.getenv('HOME')"),
        ("loops/a.py", "from os import environ"),
    ],
)
def test_settings_and_the_environment_below_the_server_are_found(tree, place: str, text: str) -> None:
    (fault,) = settings_faults(tree({place: text}))
    assert fault.startswith(f"{place}:")


def test_the_server_reads_settings_and_config_reads_its_own(tree) -> None:
    root = tree(
        {
            "server/a.py": "import os\nfrom config.settings import Settings\nx = os.environ",
            "config/a.py": "from config.settings import Settings",
            "loops/a.py": "from config.secret_text import SecretText\nimport os\nos.replace('a', 'b')",
        }
    )
    assert settings_faults(root) == []


@pytest.mark.parametrize(
    "name",
    [
        "RunManager",
        "helpers",
        "url_utils",
        "common",
        "data",
        "Data",
        "process_event",
        "EventProcessor",
        "get_info",
        "do_it",
    ],
)
def test_names_that_say_nothing_are_told(name: str) -> None:
    assert says_nothing(name)


@pytest.mark.parametrize(
    "name",
    [
        "kill_process_group",
        "process_id",
        "data_received",
        "database",
        "manage",
        "commonmark",
        "information",
        "process_bind_param",
        "__init__",
    ],
)
def test_names_that_only_look_alike_are_let_be(name: str) -> None:
    assert not says_nothing(name)


def test_banned_names_of_modules_classes_and_functions_are_found(tree) -> None:
    root = tree(
        {
            "loops/utils.py": "",
            "loops/a.py": "class RunHelper:\n    async def process_all(self):\n        data = info = common = 1\n",
        }
    )
    assert name_faults(root) == [
        "loops/a.py:1: RunHelper says nothing",
        "loops/a.py:2: process_all says nothing",
        "loops/utils.py:1: utils says nothing",
    ]


def test_a_module_of_401_lines_is_found_and_one_of_400_is_not(tree) -> None:
    root = tree({"loops/long.py": "x = 1\n" * 401, "loops/full.py": "x = 1\n" * 400})
    assert length_faults(root) == ["loops/long.py: 401 lines, 400 at most"]


@pytest.mark.parametrize(
    ("include", "faults"),
    [
        ('["config*", "loops*", "notify*", "server*", "triggers*"]', []),
        ('["*"]', ["installs tests", "installs tests.unit"]),
        ('["config", "loops*", "server*", "triggers*"]', ["does not install notify"]),
    ],
)
def test_what_would_be_installed_is_told(tree, include: str, faults: list[str]) -> None:
    assert package_faults(tree({"pyproject.toml": f"[tool.setuptools.packages.find]\ninclude = {include}\n"})) == faults
