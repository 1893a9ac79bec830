"""What a connection of each kind is made of: which settings there are, which are secret, and which fit together."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from loops.definition.findings import shown, suggestion
from loops.errors import Fault, RequestError

LONGEST_NAME = 100
LONGEST_VALUE = 20_000
MOST_GROUP_TYPES = 5
SMTP_PORTS = {"starttls": 587, "tls": 465, "none": 25}

_ADDRESS = re.compile(r"[^\s@<>]+@[^\s@<>]+")
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}|\[?[0-9a-fA-F:]+\]?")
_LAST_PORT = 65535
_STANDARD = "whsec_"
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "content-type", "accept", "accept-encoding"}
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `check` gives back the value in its stored form, or raises RequestError."""

    name: str
    secret: bool = False
    check: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class Kind:
    """`receives` when senders deliver to a hook of the connection; `together` checks the settings as a whole. `kept` is
    what Loops itself stores in a connection beside its settings; a kind that has it is made by Loops alone."""

    name: str
    settings: tuple[Setting, ...]
    together: Callable[[Mapping[str, str]], list[Fault]]
    receives: bool = True
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Checked:
    """Settings that fit, parted into what may be shown and what is sealed."""

    config: Mapping[str, str]
    secrets: Mapping[str, str]


def check_name(name: object) -> str:
    """The name of a connection or token; RequestError where it cannot be one."""
    if not isinstance(name, str) or not name.strip():
        raise RequestError("a name is missing", hint="any text that tells it from others", path="name")
    text = name.strip()
    if len(text) > LONGEST_NAME or not text.isprintable():
        raise RequestError("the name does not fit", hint=f"one line of at most {LONGEST_NAME} characters", path="name")
    return text


def kind_named(name: object) -> Kind:
    """The kind of that name; RequestError with the nearest where there is none."""
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise RequestError(
            f"{shown(name)!r} is not a kind of connection", hint=suggestion(str(name), list(KINDS)), path="kind"
        )
    return kind


def check_settings(kind: Kind, given: Mapping[str, object]) -> Checked:
    """The settings of a connection that fit. RequestError names every fault in them, and never a value."""
    known = {setting.name: setting for setting in kind.settings}
    faults: list[Fault] = []
    values: dict[str, str] = {}
    for name, value in given.items():
        setting = known.get(name)
        if setting is None:
            hint = suggestion(name, list(known))
            faults.append(Fault(f"settings.{shown(name)}", f"is not a setting of {kind.name}", hint))
            continue
        try:
            values[name] = setting.check(_text(value))
        except RequestError as refused:
            faults.append(Fault(f"settings.{name}", refused.message, refused.hint))
    # With one of the values refused, what the others lack would only be its echo.
    faults = faults or kind.together(values)
    if faults:
        lines = [f"{fault.path} {fault.message}" for fault in faults]
        raise RequestError("\n".join(lines), hint=faults[0].hint, path=faults[0].path)
    return Checked(
        config={name: value for name, value in values.items() if not known[name].secret},
        secrets={name: value for name, value in values.items() if known[name].secret},
    )


def check_changes(kind: Kind, stored: Mapping[str, str], given: Mapping[str, object]) -> Checked:
    """The settings of a connection after a change of some: a null takes one away, the others stay as stored.

    RequestError as from check_settings, by the same checks.
    """
    if not given:
        raise RequestError("there is nothing to change", hint="name a setting and its new value", path="settings")
    known = {setting.name for setting in kind.settings}
    taken_away = {name for name, value in given.items() if value is None and name in known}
    whole = {name: value for name, value in {**stored, **given}.items() if name not in taken_away}
    return check_settings(kind, whole)


def _text(value: object) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise RequestError("is no text", hint="give it as text")
    text = text.strip()
    if not text:
        raise RequestError("is empty", hint="leave it out, or give a value")
    if len(text) > LONGEST_VALUE:
        raise RequestError(f"holds more than {LONGEST_VALUE} characters", hint="give the value alone")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise RequestError("holds characters that cannot be stored", hint="give it as plain text")
    return text


def _line(text: str) -> str:
    if not text.isprintable():
        raise RequestError("holds line breaks or control characters", hint="give it on one line")
    return text


def _token(text: str) -> str:
    if not text.isascii() or " " in _line(text):
        raise RequestError("is no token: it holds spaces or letters outside ASCII", hint="copy the token alone")
    return text


def _base_address(text: str) -> str:
    hint = "as https://github.example.org/api/v3"
    try:
        parts = urlsplit(_line(text))
        in_order = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise RequestError("is no address", hint=hint) from error
    if not in_order or parts.query or parts.fragment or parts.username is not None:
        raise RequestError("must be an http or https address without user, query and fragment", hint=hint)
    return text.rstrip("/")


def _server_address(text: str) -> str:
    """An address as it was given: to some servers a slash at its end matters."""
    _base_address(text)
    return text


def _slug(text: str) -> str:
    if not _SLUG.fullmatch(text):
        raise RequestError("is no slug of an app", hint="the last part of github.com/apps/<slug>")
    return text


def _app_id(text: str) -> str:
    if not (text.isascii() and text.isdigit()):
        raise RequestError("is no app id: it is a number", hint="it stands at the head of the app's settings page")
    return text


def _private_key(text: str) -> str:
    # A key that came through an environment variable often has its line breaks written out.
    key = text.replace("\\n", "\n") if "\n" not in text else text
    try:
        load_pem_private_key(key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise RequestError("is no private key in PEM form", hint="pass the file as it was downloaded") from error
    return key


def _slack_token(prefix: str, other: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text.startswith(other):
            raise RequestError(
                f"begins with {other}: that is the other token", hint=f"the one here begins with {prefix}"
            )
        return _token(text)

    return check


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise RequestError("is no host", hint="a name or an address alone, without port")
    return text


def _port(text: str) -> str:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) <= _LAST_PORT):
        raise RequestError("is no port", hint=f"from 1 to {_LAST_PORT}")
    return str(int(text))


def _security(text: str) -> str:
    if text.lower() not in SMTP_PORTS:
        raise RequestError("is no way to secure the connection", hint=f"one of {', '.join(SMTP_PORTS)}")
    return text.lower()


def _sender(text: str) -> str:
    bare = text.rpartition("<")[2].rstrip(">") if text.endswith(">") else text
    if not text.isprintable() or not _ADDRESS.fullmatch(bare):
        raise RequestError("is no email address", hint="as loops@example.org or Loops <loops@example.org>")
    return text


def _missing(values: Mapping[str, str], name: str, hint: str) -> list[Fault]:
    return [] if name in values else [Fault(f"settings.{name}", "is missing", hint)]


def _github(values: Mapping[str, str]) -> list[Fault]:
    faults = _missing(values, "webhook_secret", "the secret that stands in the webhook's settings on GitHub")
    if "token" in values and ("app_id" in values or "private_key" in values):
        faults.append(Fault("settings.token", "stands beside an app's credentials", "give one of the two"))
    for one, other in (("app_id", "private_key"), ("private_key", "app_id")):
        if one in values:
            faults += _missing(values, other, f"{one} works only together with {other}")
    return faults


def _slack(values: Mapping[str, str]) -> list[Fault]:
    if values.keys() & {"signing_secret", "bot_token", "app_token"}:
        return []
    hint = "signing_secret for events over HTTP, app_token for Socket Mode, bot_token to write"
    return [Fault("settings", "hold no credential", hint)]


def _smtp(values: Mapping[str, str]) -> list[Fault]:
    faults = _missing(values, "host", "the mail server's name")
    faults += _missing(values, "from", "the address that messages come from")
    for one, other in (("username", "password"), ("password", "username")):
        if one in values:
            faults += _missing(values, other, f"{one} works only together with {other}")
    return faults


def _webhook_secret(text: str) -> str:
    if _line(text).startswith(_STANDARD):
        try:
            key = base64.b64decode(text.removeprefix(_STANDARD), validate=True)
        except binascii.Error as error:
            raise RequestError(
                "begins as a signing secret does and is no base64 behind that",
                hint="copy it whole from the destination",
            ) from error
        if not key:
            raise RequestError("is the beginning of a signing secret alone", hint="copy it whole from the destination")
    return text


def _group_types(text: str) -> str:
    names = [name.strip() for name in _line(text).split(",")]
    if not all(names) or len(set(names)) < len(names) or len(names) > MOST_GROUP_TYPES:
        raise RequestError(
            "are not up to five different names with commas between them",
            hint="in the order of PostHog's project settings, as company,project",
        )
    return ",".join(names)


def _posthog(values: Mapping[str, str]) -> list[Fault]:
    if values.keys() & {"api_key", "webhook_secret"}:
        return []
    return [Fault("settings", "hold no credential", "api_key for capture, webhook_secret for a webhook destination")]


def _header(text: str) -> str:
    name, colon, value = _line(text).partition(":")
    if not colon or not _HEADER.fullmatch(name.strip()) or not value.strip() or not text.isascii():
        raise RequestError("is no header", hint="as X-Api-Key: the key")
    if name.strip().lower() in _OURS:
        raise RequestError(f"sets {name.strip()}, which is not free", hint="the token goes into token")
    return f"{name.strip()}: {value.strip()}"


def _tool_names(text: str) -> str:
    names = [name.strip() for name in _line(text).split(",")]
    if not all(names):
        raise RequestError("are no names with commas between them", hint="as search,get_page")
    return ",".join(sorted(set(names)))


def _yes_or_no(text: str) -> str:
    if text.lower() not in ("yes", "no"):
        raise RequestError("is neither yes nor no", hint="no keeps tasks from it")
    return text.lower()


def _mcp(values: Mapping[str, str]) -> list[Fault]:
    if ("url" in values) == ("command" in values):
        hint = "url of a server over streamable HTTP, or command: a name in LOOPS_MCP_COMMANDS"
        return [Fault("settings", "name either a url or a command", hint)]
    if "command" in values and "header" in values:
        return [Fault("settings.header", "is sent over HTTP alone", "a command gets token as MCP_TOKEN")]
    return []


def _webhook(values: Mapping[str, str]) -> list[Fault]:  # noqa: ARG001 - one shape for all
    return []


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "github",
            (
                Setting("webhook_secret", secret=True, check=_line),
                Setting("token", secret=True, check=_token),
                Setting("app_id", secret=True, check=_app_id),
                Setting("private_key", secret=True, check=_private_key),
                Setting("api_base_url", check=_base_address),
                Setting("app_slug", check=_slug),
            ),
            _github,
        ),
        Kind(
            "slack",
            (
                Setting("signing_secret", secret=True, check=_token),
                Setting("bot_token", secret=True, check=_slack_token("xoxb-", "xapp-")),
                Setting("app_token", secret=True, check=_slack_token("xapp-", "xoxb-")),
                Setting("api_base_url", check=_base_address),
                # Learned from Slack with the bot token; own messages and their addresses are known by them.
                Setting("team_id", check=_token),
                Setting("app_id", check=_token),
                Setting("bot_id", check=_token),
                Setting("user_id", check=_token),
                Setting("workspace_url", check=_base_address),
            ),
            _slack,
        ),
        Kind(
            "smtp",
            (
                Setting("host", check=_host),
                Setting("port", check=_port),
                Setting("username", check=_line),
                Setting("password", secret=True, check=_line),
                Setting("security", check=_security),
                Setting("from", check=_sender),
            ),
            _smtp,
            receives=False,
        ),
        Kind(
            "posthog",
            (
                Setting("api_key", secret=True, check=_token),
                Setting("webhook_secret", secret=True, check=_webhook_secret),
                Setting("group_types", check=_group_types),
            ),
            _posthog,
        ),
        Kind(
            "mcp",
            (
                Setting("url", check=_server_address),
                Setting("token", secret=True, check=_token),
                Setting("header", secret=True, check=_header),
                Setting("command", check=_slug),
                Setting("tools", check=_tool_names),
                Setting("reads", check=_tool_names),
                Setting("enabled", check=_yes_or_no),
            ),
            _mcp,
            receives=False,
        ),
        Kind(
            "webhook",
            (Setting("webhook_secret", secret=True, check=_webhook_secret),),
            _webhook,
            receives=False,  # its address holds a secret, and is told to editors of its workflow
            kept=frozenset({"workflow", "trigger", "token"}),
        ),
    )
}
