"""What GitHub answers, and what its client makes of it: over the wire, with PyGithub, against a double."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from loops.connections.github import SECONDS, GitHubClient, GitHubClients
from loops.connections.secrets import SecretBox
from loops.errors import ExternalError, Unreached
from loops.store.connections import ConnectionRow
from tests.doubles.github import INSTALLATION, GitHubDouble, github, hangs_up, says, sleeps

BOX = SecretBox(["a key that is long enough to be one"])
NOW = datetime(2026, 7, 6, tzinfo=UTC)


@pytest.fixture
async def hub() -> AsyncIterator[GitHubDouble]:
    async with github() as double:
        yield double


@pytest.fixture
def clients() -> Iterator[GitHubClients]:
    made = GitHubClients(BOX)
    yield made
    made.close()


def stored(settings: dict[str, str], number: int = 1) -> ConnectionRow:
    config = {name: value for name, value in settings.items() if name == "api_base_url"}
    secrets: dict[str, Any] = {name: value for name, value in settings.items() if name not in config}
    return ConnectionRow(number, "default", "github", "work", config, BOX.seal(secrets), NOW, NOW)


def made(clients: GitHubClients, settings: dict[str, str], number: int = 1) -> GitHubClient:
    client = clients.of(stored(settings, number))
    assert client is not None
    return client


@pytest.mark.parametrize(
    ("permission", "role", "access"),
    [
        ("admin", "admin", "write"),
        ("write", "write", "write"),
        ("write", "maintain", "write"),
        ("maintain", "maintain", "write"),
        ("read", "triage", "read"),
        ("read", "read", "read"),
        ("none", "none", "read"),
        ("write", "our-own-role", "write"),
        ("read", "our-own-role", "read"),
    ],
)
async def test_write_maintain_and_admin_may_write_and_nothing_else(hub, clients, permission, role, access):
    hub.may("ada", permission, role)
    found = await made(clients, hub.token_settings()).permission("acme/widgets", "ada")
    assert (found.access, found.role, found.remaining) == (access, role, 4999)


async def test_a_login_is_quoted(hub, clients):
    hub.may("renovate[bot]", "write")
    found = await made(clients, hub.token_settings()).permission("acme/widgets", "renovate[bot]")
    assert found.access == "write"


async def test_an_app_asks_as_its_installation_with_one_token_for_many_calls(hub, clients):
    hub.may("ada", "write")
    client = made(clients, hub.app_settings())
    asked = [client.permission("acme/widgets", "ada", INSTALLATION) for _ in range(8)]
    assert {found.access for found in await asyncio.gather(*asked)} == {"write"}
    assert (hub.calls["token"], hub.calls["permission"], hub.calls["installation"]) == (1, 8, 0)


async def test_the_token_of_an_installation_is_renewed_before_it_runs_out(hub, clients):
    hub.may("ada", "write")
    hub.token_seconds = 10.0  # which is less than what a token must have left
    client = made(clients, hub.app_settings())
    await client.permission("acme/widgets", "ada", INSTALLATION)
    before = hub.calls["token"]
    assert (await client.permission("acme/widgets", "ada", INSTALLATION)).access == "write"
    assert hub.calls["token"] > before


async def test_a_token_that_was_taken_back_is_got_anew_after_one_refusal(hub, clients):
    hub.may("ada", "write")
    client = made(clients, hub.app_settings())
    await client.permission("acme/widgets", "ada", INSTALLATION)
    hub.tokens.clear()
    with pytest.raises(ExternalError, match="status 401: Bad credentials"):
        await client.permission("acme/widgets", "ada", INSTALLATION)
    assert (await client.permission("acme/widgets", "ada", INSTALLATION)).access == "write"


async def test_a_delivery_that_names_no_installation_finds_it_once(hub, clients):
    hub.may("ada", "write")
    client = made(clients, hub.app_settings())
    for _ in range(3):
        assert (await client.permission("acme/widgets", "ada")).access == "write"
    assert (hub.calls["installation"], hub.calls["token"]) == (1, 1)
    with pytest.raises(ExternalError, match="status 404"):
        await client.permission("acme/elsewhere", "ada")


@pytest.mark.parametrize("status", ["301", "307"])
async def test_a_renamed_repository_is_followed(hub, clients, status):
    hub.may("ada", "admin")
    hub.moved["acme/old"] = status
    assert (await made(clients, hub.token_settings()).permission("acme/old", "ada")).access == "write"
    assert hub.calls["redirect"] == 1


async def test_a_redirection_to_another_host_is_no_answer_and_takes_no_token_there(hub, clients):
    hub.may("ada", "admin")
    async with github() as other:
        for status in (301, 307):
            hub.faults = [says(status, "", Location=f"{other.url}/repos/acme/widgets/collaborators/ada/permission")]
            with pytest.raises(ExternalError):
                await made(clients, hub.token_settings()).permission("acme/widgets", "ada")
        # The same host by name, another port: no host that an admin named.
        assert other.calls["permission"] == 0


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (says(404, {"message": "Not Found"}), "refused with status 404: Not Found"),
        (says(403, {"message": "Resource not accessible"}), "refused with status 403: Resource not accessible"),
        (says(403, {"message": "API rate limit exceeded"}, X_RateLimit_Remaining="0"), "the rate limit is used up"),
        (says(429, {"message": "slow down"}, Retry_After="60"), "the rate limit is used up"),
        (says(500, {"message": "oops"}), "refused with status 500: oops"),
        (says(502, "<html>bad gateway</html>"), "no API of GitHub's: status 502"),
        (says(200, "<html>sign in</html>"), "no API of GitHub's"),
        (says(200, "{"), "no API of GitHub's"),
        (says(200, "[" * 100_000), "no API of GitHub's"),
        (says(200, "[]"), "no API of GitHub's"),
        (says(200, {"role_name": 5}), "no API of GitHub's"),
        (hangs_up, "cannot be reached"),
    ],
)
async def test_whatever_is_no_answer_is_an_error_in_words_and_never_access(hub, clients, fault, told):
    hub.may("ada", "admin")
    hub.faults = [fault]
    with pytest.raises(ExternalError, match=told) as caught:
        await made(clients, hub.token_settings()).permission("acme/widgets", "ada")
    assert caught.value.hint
    assert "ghp_" not in caught.value.message


async def test_a_call_that_takes_longer_than_two_seconds_is_given_up(hub, clients):
    hub.may("ada", "admin")
    hub.faults = [sleeps(30.0)]
    begun = time.monotonic()
    with pytest.raises(Unreached):
        await made(clients, hub.token_settings()).permission("acme/widgets", "ada")
    assert time.monotonic() - begun >= SECONDS - 0.1
    assert (await made(clients, hub.token_settings()).permission("acme/widgets", "ada")).access == "write"


async def test_a_host_that_is_not_there_is_told(hub, clients):
    with pytest.raises(Unreached, match="cannot be reached"):
        await made(clients, {**hub.token_settings(), "api_base_url": "http://127.0.0.1:1/api/v3"}).permission(
            "a/b", "c"
        )


async def test_a_used_up_rate_limit_is_not_slept_upon(hub, clients):
    fault = says(403, {"message": "API rate limit exceeded"}, X_RateLimit_Remaining="0", X_RateLimit_Reset="9999999999")
    hub.faults = [fault]
    with pytest.raises(ExternalError, match="used up"):
        await made(clients, hub.token_settings()).permission("acme/widgets", "ada")


async def test_below_five_hundred_calls_left_nothing_more_is_asked(hub, clients):
    hub.may("ada", "admin")
    client = made(clients, hub.token_settings())
    hub.remaining = 500
    assert (await client.permission("acme/widgets", "ada")).access == "write"
    hub.remaining = 499
    for _ in range(2):
        with pytest.raises(ExternalError, match="only 499 calls are left") as caught:
            await client.permission("acme/widgets", "ada")
        assert caught.value.status == 429
    assert hub.calls["permission"] == 2


async def test_a_server_without_a_rate_limit_is_asked(hub, clients):
    hub.may("ada", "admin")
    hub.remaining = None
    assert (await made(clients, hub.token_settings()).permission("acme/widgets", "ada")).remaining is None


async def test_at_most_four_calls_are_under_way(hub, clients):
    for number in range(12):
        hub.may(f"ada{number}", "write")
    hub.always = sleeps(0.05)
    client = made(clients, hub.token_settings())
    await asyncio.gather(*(client.permission("acme/widgets", f"ada{number}") for number in range(12)))
    assert hub.most_at_once == 4


async def test_calls_one_after_another_do_not_wait_for_each_other(hub, clients):
    hub.may("ada", "write")
    client = made(clients, hub.token_settings())
    begun = time.monotonic()
    for _ in range(20):  # PyGithub by itself pauses a quarter of a second between two
        await client.permission("acme/widgets", "ada")
    assert time.monotonic() - begun < 20 * 0.25


def test_a_connection_without_credentials_or_with_secrets_of_another_key_has_no_client(clients):
    assert clients.of(stored({"webhook_secret": "s"})) is None
    other = SecretBox(["another key, as long as the first one"]).seal({"token": "t"})
    assert clients.of(ConnectionRow(2, "default", "github", "x", {}, other, NOW, NOW)) is None


async def test_a_client_is_made_once_and_anew_when_its_connection_changes(hub, clients):
    row = stored(hub.token_settings())
    first = clients.of(row)
    assert clients.of(row) is first
    assert clients.of(stored(hub.token_settings())) is not first  # sealed anew, so perhaps another token


def test_what_is_opened_is_told_to_the_mask_of_the_log(hub):
    told: list[str] = []
    one = GitHubClients(BOX, told.extend)
    one.of(stored({"token": "ghp_x", "webhook_secret": "s"}))
    one.close()
    assert {"ghp_x", "s"} <= set(told)


async def test_a_damaged_app_key_is_told_with_what_mends_it(hub, clients):
    with pytest.raises(ExternalError, match="key") as caught:
        await made(clients, {**hub.app_settings(), "private_key": "no key"}).permission("acme/widgets", "ada")
    assert "private key" in caught.value.hint
