"""CIDR ranges: those of the GPU networks, and which ranges of a VPC network are free."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

Network = ipaddress.IPv4Network
GVNIC_RANGE = "192.168.0.0/24"
# Google allocates automatic ranges from these; an auto mode VPC network reserves 10.128.0.0/9 for its subnets.
_PRIVATE_RANGES = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
AUTO_MODE_RANGE = ipaddress.IPv4Network("10.128.0.0/9")


def rdma_range(number: int) -> str:
    """Return the range of RDMA subnet `number`, 0 to 7."""
    return f"192.168.{number + 1}.0/24"


def parse_ranges(texts: Iterable[str]) -> Iterator[Network]:
    """Yield the valid IPv4 ranges among `texts`; others are skipped."""
    for text in texts:
        try:
            found = ipaddress.ip_network(text, strict=False)
        except ValueError:
            continue
        if isinstance(found, ipaddress.IPv4Network):
            yield found


def first_free_range(prefix: int, taken: Iterable[Network]) -> Network | None:
    """Return the first private range with this prefix length that overlaps nothing in `taken`, or None."""
    held = list(taken)
    blocks = (
        block
        for whole in _PRIVATE_RANGES
        if whole.prefixlen <= prefix
        for block in whole.subnets(new_prefix=prefix)
    )
    return next((block for block in blocks if not any(block.overlaps(one) for one in held)), None)
