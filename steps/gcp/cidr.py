"""Address ranges: those of the GPU nodes' own networks, and what is free in a VPC."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

Network = ipaddress.IPv4Network
GVNIC_RANGE = "192.168.0.0/24"
# What Google takes automatic ranges from; an auto-mode VPC keeps 10.128.0.0/9 for its subnets.
_PRIVATE_RANGES = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
AUTO_MODE_RANGE = ipaddress.IPv4Network("10.128.0.0/9")


def rdma_range(number: int) -> str:
    """Of the RDMA subnet 0 to 7."""
    return f"192.168.{number + 1}.0/24"


def parse_ranges(texts: Iterable[str]) -> Iterator[Network]:
    """The IPv4 ranges among texts."""
    for text in texts:
        try:
            found = ipaddress.ip_network(text, strict=False)
        except ValueError:
            continue
        if isinstance(found, ipaddress.IPv4Network):
            yield found


def first_free_range(prefix: int, taken: Iterable[Network]) -> Network | None:
    """The first private range of that size that nothing overlaps; None when there is none."""
    held = list(taken)
    blocks = (
        block
        for whole in _PRIVATE_RANGES
        if whole.prefixlen <= prefix
        for block in whole.subnets(new_prefix=prefix)
    )
    return next((block for block in blocks if not any(block.overlaps(one) for one in held)), None)
