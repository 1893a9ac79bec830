"""One parser a kind of setting: text and the folder that relative paths start from, to a value.

A parser refuses with SettingError, whose message completes "<setting>: ..."; a parser for secrets never repeats
its text.
"""

import ipaddress
import pwd
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from config.secret_text import SecretText

Parser: TypeAlias = Callable[[str, Path], object]

SECRET_KEY_MIN_CHARS = 32
MAKE_A_KEY = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"

_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_MODEL = re.compile(r"[a-z][a-z0-9_-]*:\S+")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_COMMAND_HINT = "as files=/usr/local/bin/mcp-files --root /srv/docs; a wrapper script for what has commas in it"
_PRICE = re.compile(r"(\d{1,7}(?:\.\d{1,6})?)/(\d{1,7}(?:\.\d{1,6})?)", re.ASCII)


class SettingError(ValueError):
    """A setting's text does not fit; `hint` says what mends it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """What a model costs, in US dollars a million tokens."""

    input: Decimal
    output: Decimal


def shown(text: str) -> str:
    """Text as it may stand in a message: quoted, control characters escaped, cut."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def whole_number(low: int, high: int) -> Parser:
    """A parser of whole numbers from `low` to `high`."""

    def parse(text: str, _base: Path) -> int:
        if not re.fullmatch(r"-?[0-9]{1,15}", text):
            raise SettingError(f"{shown(text)} is not a whole number", f"from {low} to {high}")
        number = int(text)
        if not low <= number <= high:
            raise SettingError(f"{number} is out of range", f"from {low} to {high}")
        return number

    return parse


def one_of(*choices: str) -> Parser:
    """A parser of a closed set of words; upper and lower case are the same."""

    def parse(text: str, _base: Path) -> str:
        if text.lower() not in choices:
            raise SettingError(f"{shown(text)} is not a choice", f"one of {', '.join(choices)}")
        return text.lower()

    return parse


def folder(text: str, base: Path) -> Path:
    """An absolute path; the folder need not exist."""
    try:
        path = (base / Path(text).expanduser()).resolve()
    except (RuntimeError, ValueError, OSError) as error:
        raise SettingError(f"{shown(text)} is not a path: {error}", "as /srv/loops") from error
    if path == Path(path.anchor):
        raise SettingError(f"{shown(text)} is the root of the file system", "name a folder of its own")
    if "?" in str(path):
        raise SettingError(f"{shown(text)} holds a question mark", "a database address cannot name such a folder")
    if path.exists() and not path.is_dir():
        raise SettingError(f"{shown(text)} is a file", "name a folder; it is made when it is missing")
    return path


def host(text: str, _base: Path) -> str:
    """An address or name to listen on, without port or scheme; IPv6 without brackets."""
    if not (_is_address(text) or _HOST.fullmatch(text)):
        raise SettingError(f"{shown(text)} is not a host", "an address or a name alone, as 127.0.0.1 or 0.0.0.0")
    return text


def hosts(text: str, _base: Path) -> tuple[str, ...]:
    """Names, addresses and networks, separated by commas."""
    names = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    wrong = [name for name in names if not (_is_network(name) or _HOST.fullmatch(name))]
    if wrong:
        listed = ", ".join(shown(name) for name in wrong)
        raise SettingError(
            f"{listed} cannot be used as hosts",
            "names, addresses or networks separated by commas, as git.internal, 10.0.0.7, 10.1.0.0/16",
        )
    return names


def commands(text: str, _base: Path) -> Mapping[str, tuple[str, ...]]:
    """Named commands, `name=program and its arguments`, separated by commas; quoted as in a shell, which none runs."""
    named: dict[str, tuple[str, ...]] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, line = part.partition("=")
        try:
            argv = tuple(shlex.split(line))
        except ValueError as error:
            raise SettingError(f"{shown(part)} cannot be read: {error}", _COMMAND_HINT) from None
        if not _NAME.fullmatch(name.strip()) or not argv:
            raise SettingError(f"{shown(part)} is no named command", _COMMAND_HINT)
        if name.strip() in named:
            raise SettingError(f"{shown(name.strip())} is named twice", "give each command a name of its own")
        named[name.strip()] = argv
    return named


def file_patterns(text: str, _base: Path) -> tuple[str, ...]:
    """Patterns of file names, separated by commas."""
    patterns = tuple(part.strip() for part in text.split(",") if part.strip())
    wrong = [one for one in patterns if "\\" in one or ".." in one.split("/") or one.strip("*/?") == ""]
    if wrong:
        listed = ", ".join(shown(one) for one in wrong)
        raise SettingError(f"{listed} cannot be used as file names", "as package.json, *.lock, /deploy/*")
    return patterns


def web_address(text: str, _base: Path) -> str:
    """An http(s) address of scheme, host and port alone, without a closing slash."""
    return _address(text, path_allowed=False)


def base_address(text: str, _base: Path) -> str:
    """An http(s) address that may have a path, without a closing slash."""
    return _address(text, path_allowed=True)


def _address(text: str, *, path_allowed: bool) -> str:
    hint = "as https://loops.example.org" + ("/v1" if path_allowed else "")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise SettingError(f"{shown(text)} is not an address: {error}", hint) from error
    name = parts.hostname or ""
    if parts.scheme not in {"http", "https"} or not (_is_address(name) or _HOST.fullmatch(name)):
        raise SettingError(f"{shown(text)} is not an http or https address", hint)
    if parts.username is not None or parts.password is not None:
        raise SettingError("an address with a user name or password is not taken", hint)
    path = parts.path.rstrip("/")
    if parts.query or parts.fragment or (path and not path_allowed):
        raise SettingError(f"{shown(text)} has more than a scheme, a host and a port", hint)
    netloc = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{netloc}" + (f":{port}" if port is not None else "") + path


def database_url(text: str, base: Path) -> str:
    """A SQLite file or a Postgres database, as SQLAlchemy writes it. May hold a password: never repeated."""
    scheme, separator, rest = text.partition("://")
    hint = "as sqlite:////srv/loops/loops.db or postgresql://user:password@host/database"
    if not separator:
        raise SettingError("is not a database address", hint)
    if scheme in {"postgres", "postgresql", "postgresql+psycopg"}:
        return _postgres_url(rest, hint)
    if scheme != "sqlite":
        raise SettingError(f"{shown(scheme)} is not a kind of database that Loops can use", hint)
    path, _, query = rest.removeprefix("/").partition("?")
    if not rest.startswith("/") or not path or query or path.startswith((":memory:", "file:")):
        raise SettingError("does not name a file; a database in memory cannot be used", hint)
    return f"sqlite:///{(base / path).resolve()}"


def _postgres_url(rest: str, hint: str) -> str:
    try:
        parts = urlsplit(f"postgresql://{rest}")
        database = parts.path.strip("/")
        _ = parts.port
    except ValueError:
        # The parser's own message repeats parts of the address, and so perhaps the password.
        raise SettingError("has a host or port that cannot be read", hint) from None
    if not database or parts.fragment:
        raise SettingError("names no database", f"{hint}; in a password / ? # @ are written as %2F %3F %23 %40")
    return f"postgresql+psycopg://{rest}"


def secret_keys(text: str, _base: Path) -> SecretText:
    """One key, or several separated by commas: the first encrypts, all decrypt."""
    keys = [key.strip() for key in text.split(",")]
    for place, key in enumerate(keys, start=1):
        if len(key) < SECRET_KEY_MIN_CHARS:
            which = f"key {place} of {len(keys)}" if len(keys) > 1 else "the key"
            raise SettingError(
                f"{which} has {len(key)} characters, at least {SECRET_KEY_MIN_CHARS} are needed", MAKE_A_KEY
            )
    return SecretText(",".join(keys))


def model(text: str, _base: Path) -> str:
    """`provider:name`. Which providers there are is not known here."""
    if not _MODEL.fullmatch(text):
        raise SettingError(
            f"{shown(text)} does not name a model", "provider:name, as anthropic:claude-sonnet-5 or ollama:llama3"
        )
    return text


def secret(text: str, _base: Path) -> SecretText:
    """A secret that is kept as it is."""
    if any(character.isspace() for character in text):
        raise SettingError("holds white space", "copy it again, without anything around it")
    return SecretText(text)


def user(text: str, _base: Path) -> tuple[int, int]:
    """A user of this machine who is not root, by name, number, or the numbers of user and group: uid and gid."""
    numbers = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", text)
    if numbers:
        found = int(numbers[1]), int(numbers[2] or numbers[1])
    else:
        try:
            entry = pwd.getpwnam(text)
        except (KeyError, ValueError) as error:
            raise SettingError(f"{shown(text)} is no user of this machine", "a name, or numbers as 990:990") from error
        found = entry.pw_uid, entry.pw_gid
    if 0 in found:
        raise SettingError(f"{shown(text)} is root, or in its group", "name a user that has no rights")
    return found


def money(text: str, _base: Path) -> Decimal:
    """US dollars, more than none."""
    if not re.fullmatch(r"[0-9]{1,7}(?:\.[0-9]{1,6})?", text) or not Decimal(text):
        raise SettingError(f"{shown(text)} is not an amount", "US dollars, as 2 or 0.50")
    return Decimal(text)


def price(text: str, _base: Path) -> TokenPrice:
    """`input/output`, each US dollars a million tokens."""
    found = _PRICE.fullmatch(text.replace(" ", ""))
    if not found:
        raise SettingError(
            f"{shown(text)} is not a price", "US dollars a million tokens, input/output, as 3/15 or 0.25/1.25"
        )
    return TokenPrice(Decimal(found[1]), Decimal(found[2]))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=True)
    except ValueError:
        return False
    return True
