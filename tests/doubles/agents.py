"""Where the coding agents are that some tests start for real: in the folder that LOOPS_TEST_AGENTS names, or on PATH.

In that folder npm installs them where they are missing; without it nothing is fetched, since they are large.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import AGENTS

PACKAGES = {
    "claude": ("@anthropic-ai/claude-code@2.1.332", "@anthropic-ai/claude-code-*/claude"),
    "codex": ("@openai/codex@0.171.0", "@openai/codex-*/vendor/*/bin/codex"),
}
"""The package of each, and where the program lies below node_modules: it needs no Node."""


def agent(name: str) -> Path:
    """The program; the test is skipped where it is not."""
    found = _on_path(name) if AGENTS is None else _installed(name, Path(AGENTS))
    if found is None:
        pytest.skip(f"{name} is not installed on this machine; LOOPS_TEST_AGENTS may name a folder for it")
    return found


def _on_path(name: str) -> Path | None:
    found = shutil.which(name)
    if found is None:
        return None
    program = Path(found).resolve()
    with program.open("rb") as opened:
        return program if opened.read(4) == b"\x7fELF" else None


def _installed(name: str, folder: Path) -> Path | None:
    package, place = PACKAGES[name]
    modules = folder / "node_modules"
    if not list(modules.glob(place)) and shutil.which("npm"):
        folder.mkdir(parents=True, exist_ok=True)
        # Its install scripts are not needed, and no reason to trust it with this machine.
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), package]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
    return next(iter(sorted(modules.glob(place))), None)
