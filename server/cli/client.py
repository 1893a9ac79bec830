"""A client of the REST API, over TCP or a service's private socket."""

import http.client
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from loops.errors import (
    Conflict,
    DefinitionError,
    ExternalError,
    Fault,
    LoopsError,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RequestError,
    StoreBusy,
)

_PATIENCE = 60.0
_NONE: Mapping[str, str] = {}
_BY_STATUS: Mapping[int, type[LoopsError]] = {
    400: RequestError,
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: RequestError,
    503: StoreBusy,
}


@dataclass(frozen=True, slots=True)
class Ready:
    """Whether a service can take deliveries, the reason where it cannot, and what it says of its sandbox."""

    is_ready: bool
    reason: str
    sandbox: str


class Client:
    """Calls the API of one project. Raises what the service answered, or ExternalError where it did not answer."""

    def __init__(
        self,
        connect: Callable[[], http.client.HTTPConnection],
        place: str,
        project: str,
        *,
        base: str = "",
        token: str = "",
    ) -> None:
        self._connect = connect
        self._place = place
        self._base = base
        self._project = f"{base}/api/projects/{quote(project, safe='')}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    @classmethod
    def at(cls, url: str, token: str, project: str) -> "Client":
        """Of the service at an address. RequestError where that is none."""
        parts = urlsplit(url)
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        kind = kinds.get(parts.scheme)
        if kind is None or not parts.hostname:
            raise RequestError(f"{url!r} is not the address of a service", hint="as http://127.0.0.1:8765")
        host, port = parts.hostname, _port(parts.netloc, url)
        return cls(lambda: kind(host, port, timeout=_PATIENCE), url, project, base=parts.path.rstrip("/"), token=token)

    @classmethod
    def over(cls, path: Path, project: str) -> "Client":
        """Of the service that listens on a private socket."""
        return cls(lambda: _SocketConnection(path), f"the service at {path}", project)

    def get(self, *path: str, **query: object) -> Any:  # noqa: ANN401 - JSON
        """GET below the project; parameters that are None are left out."""
        return self._call("GET", self._path(path, query), None)

    def raw(self, *path: str) -> bytes:
        """GET below the project of what is no JSON."""
        status, text = self._asked("GET", self._path(path, {}), None)
        if status < 300:
            return text
        raise self._failed(status, _decoded(text))

    def post(self, *path: str, body: Mapping[str, Any] | None = None, key: str = "") -> Any:  # noqa: ANN401 - JSON
        """POST below the project; with an idempotency key, where one is given."""
        headers = {"Idempotency-Key": key} if key else {}
        return self._call("POST", self._path(path, {}), body or {}, headers)

    def patch(self, *path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        return self._call("PATCH", self._path(path, {}), body)

    def put(self, *path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        return self._call("PUT", self._path(path, {}), body)

    def delete(self, *path: str, **query: object) -> Any:  # noqa: ANN401 - JSON
        return self._call("DELETE", self._path(path, query), None)

    def ready(self) -> Ready:
        """Whether the service can take deliveries now."""
        status, told = self._exchange("GET", f"{self._base}/ready", None)
        said = told if isinstance(told, dict) else {}
        return Ready(status == 200, str(said.get("reason", "")), str(said.get("sandbox", "")))

    def _path(self, path: tuple[str, ...], query: Mapping[str, object]) -> str:
        given = {name: value for name, value in query.items() if value is not None}
        pieces = "".join("/" + quote(piece, safe="") for piece in path)
        return self._project + pieces + ("?" + urlencode(given) if given else "")

    def _call(self, method: str, target: str, body: object, headers: Mapping[str, str] = _NONE) -> Any:  # noqa: ANN401
        status, told = self._exchange(method, target, body, headers)
        if status < 300:
            return told
        raise self._failed(status, told)

    def _failed(self, status: int, told: object) -> LoopsError:
        error = told.get("error") if isinstance(told, dict) else None
        if not isinstance(error, dict):
            return ExternalError(self._place, f"answered {status} and no error of Loops", status=status)
        return _as_error(self._place, status, error)

    def _exchange(self, method: str, target: str, body: object, more: Mapping[str, str] = _NONE) -> tuple[int, Any]:
        status, text = self._asked(method, target, body, more)
        return status, _decoded(text)

    def _asked(self, method: str, target: str, body: object, more: Mapping[str, str] = _NONE) -> tuple[int, bytes]:
        headers = {**self._headers, **more, "Accept": "application/json"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        connection = self._connect()
        try:
            connection.request(method, target, body=content, headers=headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ExternalError(self._place, f"does not answer: {reason}") from error
        finally:
            connection.close()
        return response.status, text


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _port(network_location: str, url: str) -> int | None:
    try:
        return urlsplit("//" + network_location).port
    except ValueError as error:
        raise RequestError(f"{url!r} has no port that can be", hint="as http://127.0.0.1:8765") from error


def _decoded(text: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _as_error(place: str, status: int, error: Mapping[str, Any]) -> LoopsError:
    message, hint, path = (str(error.get(key, "")) for key in ("message", "hint", "path"))
    faults = error.get("faults")
    if faults:
        return DefinitionError([Fault(one["path"], one["message"], one["hint"], one.get("code", "")) for one in faults])
    kind = _BY_STATUS.get(status)
    if kind is None:
        failed = ExternalError(place, message, status=status)
        failed.hint = hint
        return failed
    return kind(message, hint=hint, path=path)
