"""The network addresses that may be opened: by default only those of the public Internet."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

_PORTS = frozenset({80, 443, 8080, 8443})

# The registries of special-purpose addresses (RFC 6890 and its successors). Python's own
# `is_global` has changed between versions, and calls multicast addresses global.
_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier-grade NAT, and metadata of a cloud
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # metadata of a cloud, at a public address
            "169.254.0.0/16",  # link-local, and metadata of most clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments, and metadata of a cloud
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")  # all assigned addresses; the rest is local, or no host
_SPECIAL_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments; Teredo, which embeds IPv4, among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which embeds IPv4
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True)
class AddressRules:
    """Decides which addresses and ports may be connected to.

    `allowed` are networks that are allowed although they are not public. If `ports` is None, every
    port is allowed.

    >>> AddressRules().allows("127.0.0.1"), AddressRules.allowing("127.0.0.0/8").allows("127.0.0.1")
    (False, True)
    """

    allowed: tuple[IPv4Network | IPv6Network, ...] = ()
    ports: Collection[int] | None = _PORTS

    @classmethod
    def allowing(cls, *networks: str, ports: Iterable[int] | None = _PORTS) -> AddressRules:
        """Make rules from networks as text, such as ``10.1.0.0/16``."""
        allowed = tuple(map(ip_network, networks))
        return cls(allowed, None if ports is None else frozenset(ports))

    def allows(self, address: str) -> bool:
        """Return whether an address, as a resolver writes it, may be connected to."""
        try:
            target = ip_address(address)
        except ValueError:
            return False
        if isinstance(target, IPv6Address):  # packets to these reach an IPv4 address
            if target.ipv4_mapped is not None:
                target = target.ipv4_mapped
            elif target in _NAT64:
                target = IPv4Address(int(target) & 0xFFFF_FFFF)
        return any(target in network for network in self.allowed) or _is_public(target)

    def allows_port(self, port: int) -> bool:
        """Return whether a port may be connected to."""
        return self.ports is None or port in self.ports


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return (
        address in _GLOBAL_V6
        and address.scope_id is None
        and not any(address in network for network in _SPECIAL_V6)
    )
