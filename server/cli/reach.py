"""Which service a command speaks to: the one it is told, the one that runs here, or one of its own."""

import argparse
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from config.settings import Settings, ensure_secret_key, read_settings
from loops.errors import ConfigError, ExternalError, Fault, NotAuthenticated
from server.cli.client import Client
from server.whereabouts import Place, socket_path

_CONNECT_SECONDS = 5.0


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings as they stand, without making anything. Raises ConfigError with every fault."""
    file = None if args.config is None else Path(args.config)
    found = read_settings(file, os.environ)
    if isinstance(found, tuple):
        raise ConfigError([Fault(one.setting, one.message, one.hint) for one in found])
    return found


def with_key(settings: Settings) -> Settings:
    """The same with the secret key, which is made in the data folder where there is none."""
    found = ensure_secret_key(settings)
    if isinstance(found, tuple):
        raise ConfigError([Fault(one.setting, one.message, one.hint) for one in found])
    return found


def named_url(args: argparse.Namespace) -> str | None:
    """The address that --url or LOOPS_URL gives."""
    return args.url or os.environ.get("LOOPS_URL") or None


@contextmanager
def placed(args: argparse.Namespace) -> Iterator[Place]:
    """Where the service is that this command speaks to; it is there for as long as the context lasts."""
    project = args.project or "default"
    url = named_url(args)
    if url is not None:
        token = os.environ.get("LOOPS_TOKEN", "")
        if not token:
            raise NotAuthenticated("LOOPS_TOKEN is not set", hint="a service that is named by address asks for a token")
        yield Place(project, url, token)
        return
    settings = settings_of(args)
    path = running_socket(settings.data_dir)
    if path is not None:
        yield Place(project, socket=path)
        return
    from server.cli.local import local_service, require_database

    require_database(settings)
    with local_service(with_key(settings)) as own:
        yield Place(project, socket=own)


@contextmanager
def reached(args: argparse.Namespace) -> Iterator[Client]:
    """A client of the service that this command speaks to."""
    with placed(args) as place:
        if place.socket is not None:
            yield Client.over(place.socket, place.project)
        else:
            yield Client.at(place.url, place.token, place.project)


def running_socket(data_dir: Path) -> Path | None:
    """The socket of the service that runs on this data folder; None where nothing listens.

    Raises ExternalError where something does and this user may not speak to it.
    """
    path = socket_path(data_dir)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return None
        except PermissionError as error:
            refused = ExternalError(str(path), "may not be opened by this user")
            refused.hint = "run the command as the user of the service, or give --url and LOOPS_TOKEN"
            raise refused from error
        except OSError as error:
            if "too long" in str(error):  # a service would have put its socket elsewhere
                return None
            raise ExternalError(str(path), f"does not answer: {error}") from error
    return path
