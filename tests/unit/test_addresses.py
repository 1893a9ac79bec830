"""Which addresses a stranger's words may lead to."""

import ipaddress

import pytest

from loops.addresses import AllowedHosts, checked, is_public
from loops.errors import ExternalError

PRIVATE = [
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
    *("255.255.255.255", "240.0.0.1", "192.0.0.8", "198.18.0.1", "::", "::1", "fe80::1", "fc00::1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:0001::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
    *("fec0::1", "feff::1", "192.88.99.1", "3fff::1", "5f00::1", "::10.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b:1::a00:1"),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_of_this_machine_or_network_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "140.82.112.3", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_an_operator_may_allow_names_addresses_and_networks() -> None:
    allowed = AllowedHosts.of(("Git.internal", "10.0.0.7", "fd00::/8"))
    tried = [("git.INTERNAL.", "10.9.9.9"), ("x", "10.0.0.7"), ("x", "::ffff:10.0.0.7"), ("x", "fd00::1")]
    assert all(allowed.allows(host, ipaddress.ip_address(address)) for host, address in tried)
    assert not allowed.allows("x", ipaddress.ip_address("10.0.0.8"))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "2130706433", "0x7f.1", "::1", "0"])
async def test_a_host_is_judged_by_what_it_resolves_to_however_it_is_written(host: str) -> None:
    with pytest.raises(ExternalError):
        await checked(host, 80, AllowedHosts())


async def test_an_allowed_host_gives_its_addresses() -> None:
    assert ipaddress.ip_address("127.0.0.1") in await checked("localhost", 80, AllowedHosts.of(("localhost",)))


async def test_a_name_that_is_not_found_is_told() -> None:
    with pytest.raises(ExternalError, match="is not found"):
        await checked("no-such-host.invalid", 80, AllowedHosts())
