"""Where a running service is: service.json in its data folder, and the private socket that it names."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

SERVICE_FILE = "service.json"
SOCKET = "loops.sock"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a service is: at `url`, which asks for `token`, or on the private socket of one on this machine."""

    project: str
    url: str = ""
    token: str = ""
    socket: Path | None = None


def announce(data_dir: Path, url: str, socket: Path) -> None:
    """Write service.json: whole or not at all, readable by its owner alone."""
    path = data_dir / SERVICE_FILE
    fresh = path.with_name(path.name + ".new")
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps({"url": url, "pid": os.getpid(), "socket": str(socket)}), encoding="utf-8")
    fresh.replace(path)


def retract(data_dir: Path) -> None:
    """Remove service.json, unless another process has written it since."""
    if service_file(data_dir).get("pid") == os.getpid():
        (data_dir / SERVICE_FILE).unlink(missing_ok=True)


def service_file(data_dir: Path) -> dict[str, object]:
    """What a running service says of itself; empty where there is none, or it cannot be read."""
    try:
        found = json.loads((data_dir / SERVICE_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def socket_path(data_dir: Path) -> Path:
    """Where a service on this data folder listens for commands."""
    return Path(str(service_file(data_dir).get("socket") or data_dir / SOCKET))
