"""Which service a request is for, by host (as a proxy) or by the first path segment (as a base URL)."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

SERVICES_BY_PREFIX = {
    "container": "container.googleapis.com",
    "lustre": "lustre.googleapis.com",
    "serviceusage": "serviceusage.googleapis.com",
    "cloudresourcemanager": "cloudresourcemanager.googleapis.com",
    "cloudquotas": "cloudquotas.googleapis.com",
    "servicenetworking": "servicenetworking.googleapis.com",
    "cloudbilling": "cloudbilling.googleapis.com",
    "orgpolicy": "orgpolicy.googleapis.com",
    "oauth2": "oauth2.googleapis.com",
    "huggingface": "huggingface.co",
    "wandb": "api.wandb.ai",
}
_COMPUTE = "compute.googleapis.com"


@dataclass(frozen=True)
class Route:
    """The destination of a request.

    `service` is "" for an unknown one; `key` is a token that was sent in the path.
    """

    service: str
    path: str
    base_url: str  # scheme://host for links
    path_token: str = ""


def resolve_route(request: web.Request) -> Route:
    """Return the route of a request; `/_rehearsal/*` is the service `rehearsal`."""
    path = request.rel_url.raw_path
    host = (request.headers.get("Host") or "").partition(":")[0].lower()
    if host.endswith((".googleapis.com", "huggingface.co", "wandb.ai")):
        return Route(_service_of_host(host, path), path, f"https://{host}")
    base = f"http://{request.headers.get('Host', '127.0.0.1')}"
    if path.startswith("/_rehearsal"):
        return Route("rehearsal", path, base)
    if path.startswith(("/compute/", "/batch/compute/")):
        return Route(_COMPUTE, path, base)
    prefix, _, rest = path.lstrip("/").partition("/")
    key = ""
    if rest.startswith("~"):  # a token in the path, for clients that use Authorization for their own token
        key, _, rest = rest[1:].partition("/")
    return Route(
        SERVICES_BY_PREFIX.get(prefix, ""), f"/{rest}" if prefix in SERVICES_BY_PREFIX else path, base, key
    )


def _service_of_host(host: str, path: str) -> str:
    if host == "www.googleapis.com":  # used by older clients and Compute's own links
        return _COMPUTE if path.startswith(("/compute/", "/batch/compute/")) else ""
    return host
