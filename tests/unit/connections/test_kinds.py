import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from loops.connections.kinds import KINDS, LONGEST_NAME, Checked, check_changes, check_name, check_settings, kind_named
from loops.errors import RequestError


def pem(password: bytes | None = None) -> str:
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    return generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()


def checked(kind: str, **settings: object) -> Checked:
    return check_settings(KINDS[kind], settings)


def refused(kind: str, **settings: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        checked(kind, **settings)
    return caught.value


def test_settings_are_parted_into_secrets_and_what_may_be_shown() -> None:
    assert checked("github", webhook_secret="s3cret", token="ghp_x", api_base_url="http://127.0.0.1:9/api/") == Checked(
        config={"api_base_url": "http://127.0.0.1:9/api"}, secrets={"webhook_secret": "s3cret", "token": "ghp_x"}
    )


def test_an_unknown_setting_is_refused_with_the_nearest_known_one() -> None:
    error = refused("github", webhook_secrt="x", webhook_secret="y")
    assert error.path == "settings.webhook_secrt"
    assert error.hint == 'did you mean "webhook_secret"?'


def test_every_fault_is_named_at_once() -> None:
    error = refused("smtp", port="70000", security="ssl", host="mail.example.org", **{"from": "nobody"})
    assert error.message.splitlines() == [
        "settings.port is no port",
        "settings.security is no way to secure the connection",
        "settings.from is no email address",
    ]


@pytest.mark.parametrize(
    ("kind", "settings", "path"),
    [
        ("github", {}, "settings.webhook_secret"),
        ("github", {"token": "ghp_x"}, "settings.webhook_secret"),
        ("github", {"webhook_secret": "x", "app_id": "12"}, "settings.private_key"),
        ("github", {"webhook_secret": "x", "private_key": pem()}, "settings.app_id"),
        ("github", {"webhook_secret": "x", "token": "t", "app_id": "1", "private_key": pem()}, "settings.token"),
        ("slack", {}, "settings"),
        ("slack", {"api_base_url": "http://127.0.0.1:1"}, "settings"),
        ("smtp", {"host": "mail"}, "settings.from"),
        ("smtp", {"host": "mail", "from": "a@b.example", "username": "u"}, "settings.password"),
        ("smtp", {"host": "mail", "from": "a@b.example", "password": "p"}, "settings.username"),
        ("posthog", {}, "settings"),
        ("mcp", {}, "settings"),
        ("mcp", {"url": "http://127.0.0.1:1/mcp", "command": "files"}, "settings"),
        ("mcp", {"url": "ftp://example.org"}, "settings.url"),
        ("mcp", {"url": "https://ada:pw@example.org/mcp"}, "settings.url"),
        ("mcp", {"url": "https://example.org/mcp?key=s3cret"}, "settings.url"),
        ("mcp", {"command": "/usr/bin/env"}, "settings.command"),
        ("mcp", {"command": "files", "header": "X-Key: s"}, "settings.header"),
        ("mcp", {"url": "https://example.org", "header": "no header"}, "settings.header"),
        ("mcp", {"url": "https://example.org", "header": "Host: other"}, "settings.header"),
        ("mcp", {"url": "https://example.org", "header": "X-Key: a\r\nHost: other"}, "settings.header"),
        ("mcp", {"url": "https://example.org", "tools": "a,,b"}, "settings.tools"),
        ("mcp", {"url": "https://example.org", "enabled": "maybe"}, "settings.enabled"),
    ],
)
def test_settings_that_do_not_make_a_connection_together_are_refused(kind: str, settings: dict, path: str) -> None:
    error = refused(kind, **settings)
    assert error.path == path
    assert error.hint


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [
        ("github", "webhook_secret", ""),
        ("github", "webhook_secret", "   "),
        ("github", "webhook_secret", None),
        ("github", "webhook_secret", True),
        ("github", "webhook_secret", ["x"]),
        ("github", "webhook_secret", "a\0b"),
        ("github", "webhook_secret", "a\nb"),
        ("github", "webhook_secret", "\ud800"),
        ("github", "webhook_secret", "x" * 20_001),
        ("github", "token", "two words"),
        ("github", "token", "tökén"),
        ("github", "app_id", "my-app"),
        ("github", "app_id", "١٢"),
        ("github", "private_key", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----"),
        ("github", "private_key", pem(b"a password")),
        ("github", "api_base_url", "api.github.com"),
        ("github", "api_base_url", "ftp://github.example.org"),
        ("github", "api_base_url", "https://user@github.example.org"),
        ("github", "api_base_url", "https://github.example.org:99999"),
        ("github", "api_base_url", "https://github.example.org/?a=1"),
        ("github", "api_base_url", "https://[::1"),
        ("github", "app_slug", "My App"),
        ("slack", "bot_token", "xapp-1-A"),
        ("slack", "app_token", "xoxb-1-A"),
        ("smtp", "host", "mail.example.org:25"),
        ("smtp", "port", "0"),
        ("smtp", "port", "65536"),
        ("smtp", "port", "٢٥"),
        ("smtp", "from", "a@b.example\r\nBcc: c@d.example"),
        ("smtp", "from", "Loops"),
        ("posthog", "webhook_secret", "whsec_"),
        ("posthog", "webhook_secret", "whsec_not base64!"),
        ("posthog", "group_types", "a,b,c,d,e,f"),
        ("posthog", "group_types", "company,,project"),
        ("posthog", "group_types", "company, company"),
        ("posthog", "group_types", "a\nb"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_without_being_repeated(kind: str, setting: str, value: object) -> None:
    error = refused(kind, **{setting: value})
    assert error.path == f"settings.{setting}"
    assert error.hint
    secret = next(one.secret for one in KINDS[kind].settings if one.name == setting)
    if secret and isinstance(value, str) and value.strip():
        assert value.strip() not in f"{error.message} {error.hint}"


def test_values_are_stored_in_one_form() -> None:
    key = pem().strip()
    app = checked("github", webhook_secret=" s \n", app_id=77, private_key=key.replace("\n", "\\n"), app_slug="loops")
    assert app.secrets == {"webhook_secret": "s", "app_id": "77", "private_key": key}
    mail = checked("smtp", host="mail", port=587, security="STARTTLS", **{"from": "Loops <loops@example.org>"})
    assert mail.config == {"host": "mail", "port": "587", "security": "starttls", "from": "Loops <loops@example.org>"}


def test_types_of_groups_are_stored_in_their_order_and_are_no_credential() -> None:
    found = checked("posthog", webhook_secret="whsec_YWJj", group_types=" project , company ")
    assert found.config == {"group_types": "project,company"}
    assert found.secrets == {"webhook_secret": "whsec_YWJj"}
    assert refused("posthog", group_types="company").path == "settings"


def changed(kind: str, stored: dict, **given: object) -> Checked:
    return check_changes(KINDS[kind], stored, given)


def test_a_change_replaces_what_it_names_and_keeps_the_rest() -> None:
    stored = {"webhook_secret": "old", "token": "ghp_x", "app_slug": "loops"}
    assert changed("github", stored, webhook_secret=" new ", app_slug="ours") == Checked(
        config={"app_slug": "ours"}, secrets={"webhook_secret": "new", "token": "ghp_x"}
    )


def test_a_null_takes_an_optional_setting_away() -> None:
    stored = {"webhook_secret": "s", "token": "ghp_x", "app_slug": "loops"}
    assert changed("github", stored, token=None, app_slug=None) == Checked(config={}, secrets={"webhook_secret": "s"})
    assert changed("github", stored, app_id=None, app_slug=None).config == {}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "settings"),
        ({"webhook_secret": None}, "settings.webhook_secret"),
        ({"webhook_secret": ""}, "settings.webhook_secret"),
        ({"secret": None}, "settings.secret"),
        ({"secret": "x"}, "settings.secret"),
        ({"app_id": "7"}, "settings.token"),
        ({"app_id": "7", "token": None}, "settings.private_key"),
        ({"app_slug": "My App"}, "settings.app_slug"),
    ],
)
def test_a_change_is_held_to_what_a_new_connection_is_held_to(given: dict, path: str) -> None:
    with pytest.raises(RequestError) as caught:
        changed("github", {"webhook_secret": "s", "token": "ghp_x"}, **given)
    assert caught.value.path == path
    assert caught.value.hint


def test_a_kind_that_is_not_known_is_refused_with_the_nearest() -> None:
    with pytest.raises(RequestError) as caught:
        kind_named("githb")
    assert caught.value.hint == 'did you mean "github"?'
    with pytest.raises(RequestError):
        kind_named(["github"])


@pytest.mark.parametrize("name", [None, "", "  ", 7, "a\nb", "x" * (LONGEST_NAME + 1)])
def test_a_name_is_one_line_of_text(name: object) -> None:
    with pytest.raises(RequestError) as caught:
        check_name(name)
    assert caught.value.path == "name"


@given(
    st.sampled_from(sorted(KINDS)),
    st.dictionaries(
        st.sampled_from(sorted({one.name for kind in KINDS.values() for one in kind.settings})) | st.text(max_size=8),
        st.none() | st.booleans() | st.integers() | st.text(max_size=40) | st.just("https://[") | st.just("a@b"),
        max_size=6,
    ),
)
def test_whatever_is_given_is_checked_or_refused_with_a_place(kind: str, settings: dict) -> None:
    found: Checked | RequestError
    try:
        found = check_settings(KINDS[kind], settings)
    except RequestError as error:
        found = error
    if isinstance(found, RequestError):
        assert found.message
        assert found.path.startswith("settings")
    else:
        assert {*found.config, *found.secrets} == {*settings}
        assert all(isinstance(value, str) and value for value in (*found.config.values(), *found.secrets.values()))


def test_a_connector_keeps_its_address_as_it_is_and_its_credentials_secret() -> None:
    given = {
        "url": "https://example.org/mcp/",
        "token": "t0k",
        "header": "X-Key:  k3y",
        "tools": "b, a,b",
        "enabled": "No",
    }
    found = checked("mcp", **given)
    assert found.config == {"url": "https://example.org/mcp/", "tools": "a,b", "enabled": "no"}
    assert found.secrets == {"token": "t0k", "header": "X-Key: k3y"}
