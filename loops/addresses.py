"""Which addresses what comes from a workflow, an event, an agent or a page may reach."""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from loops.errors import ExternalError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_SPECIAL = tuple(
    ipaddress.ip_network(one)
    for one in ("100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20", "5f00::/16")
)
"""Networks of providers, sites and protocols, which Python counts as global in part."""
RESOLVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Private hosts that may be reached all the same: names, addresses and networks of LOOPS_ALLOWED_HOSTS."""

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, written: Sequence[str]) -> "AllowedHosts":
        """As they are set."""
        names, networks = set(), []
        for one in written:
            try:
                networks.append(ipaddress.ip_network(one, strict=False))
            except ValueError:
                names.add(one.lower().rstrip("."))
        return cls(frozenset(names), tuple(networks))

    def allows(self, host: str, address: Address) -> bool:
        """Whether an address that a host resolved to may be reached."""
        if host.lower().rstrip(".") in self.names:
            return True
        plain = _plain(address)
        return is_public(plain) or any(plain in network for network in self.networks)


def is_public(address: Address) -> bool:
    """Whether an address leads out: not to this machine, its network, or nowhere."""
    plain = _plain(address)
    leads_out = plain.is_global and not plain.is_multicast and not plain.is_reserved
    return leads_out and not any(plain in network for network in _SPECIAL)


def _plain(address: Address) -> Address:
    """The IPv4 address inside one of IPv6, in each of the forms in which routers take it out again."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


async def checked(host: str, port: int, allowed: AllowedHosts) -> list[Address]:
    """The addresses of a host that may be connected to; connect to these, and never resolve the name again.

    Raises ExternalError where there are none, or where any of them is not allowed.
    """
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # a TimeoutError is an OSError
        raise ExternalError(host, f"is not found: {error}") from error
    addresses = list(dict.fromkeys(ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found))
    refused = [str(one) for one in addresses if not allowed.allows(host, one)]
    if refused or not addresses:
        raise ExternalError(
            host, f"has the private address {', '.join(refused)}", hint="LOOPS_ALLOWED_HOSTS may name it"
        )
    return addresses
