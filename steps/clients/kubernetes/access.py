"""How to reach a cluster's API server: address, certificate authority, bearer token."""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache

TokenSupplier = Callable[[], str | Awaitable[str]]


@dataclass(frozen=True)
class KubeAccess:
    """`server`: https://HOST[:PORT] without a trailing slash. `ca_pem`: the cluster's own CA, None for the system's.

    `token` is called before every request, so that it can be refreshed; None sends no Authorization header.
    """

    server: str
    ca_pem: str | None = None
    token: TokenSupplier | None = field(default=None, repr=False)

    async def headers(self) -> dict[str, str]:
        """The Authorization header, if there is a token."""
        if self.token is None:
            return {}
        given = self.token()
        return {"Authorization": f"Bearer {await given if inspect.isawaitable(given) else given}"}

    def ssl_context(self) -> ssl.SSLContext:
        """A context that trusts `ca_pem` alone if given. Cached by its text: loading one takes milliseconds."""
        return _context(self.ca_pem)


@lru_cache(maxsize=16)
def _context(ca_pem: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca_pem)
