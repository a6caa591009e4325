"""How a cluster's API server is reached: address, certificate authority, bearer token."""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache

TokenSupplier = Callable[[], str | Awaitable[str]]


@dataclass(frozen=True)
class KubeAccess:
    """`server`: https://HOST[:PORT], no slash at the end. `ca_pem`: the cluster's own authority, None for
    the system's.

    `token` is asked before every request, so that it can be renewed there; None sends no Authorization.
    """

    server: str
    ca_pem: str | None = None
    token: TokenSupplier | None = field(default=None, repr=False)

    async def headers(self) -> dict[str, str]:
        """Authorization, if there is a token."""
        if self.token is None:
            return {}
        given = self.token()
        return {"Authorization": f"Bearer {await given if inspect.isawaitable(given) else given}"}

    def ssl_context(self) -> ssl.SSLContext:
        """Trusts `ca_pem` alone when it is given. The same context for the same text: loading one takes
        milliseconds."""
        return _context(self.ca_pem)


@lru_cache(maxsize=16)
def _context(ca_pem: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca_pem)
