"""Resource IDs, paths and commands as Google Cloud writes them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping


def resource_id(step: str, kind: str, name: str) -> str:
    return f"{step}.{kind}.{name}"


def api_id(service: str) -> str:
    """Return the ID of the resource that enables `service`.googleapis.com."""
    return resource_id("project", "api", f"{service}.googleapis.com")


def network_path(project: str, network: str) -> str:
    """Return the relative resource name that Compute and Lustre accept."""
    return f"projects/{project}/global/networks/{network}"


def region_of(zone: str) -> str:
    """us-central1-b -> us-central1; us-central1-ai1a (an AI zone) -> us-central1."""
    return zone.rpartition("-")[0]


def is_ai_zone(zone: str) -> bool:
    return zone.rpartition("-")[2].startswith("ai")


def workload_pool(project: str) -> str:
    """Return the Workload Identity pool of a project.

    A domain-scoped ID (`example.com:my-proj`) is written `my-proj.example.com`, as in service account
    addresses (inferred: no public page shows a pool of such a project).
    """
    domain, colon, short = project.partition(":")
    return f"{short}.{domain}.svc.id.goog" if colon else f"{project}.svc.id.goog"


def gcloud_command(
    subcommand: str, flags: Mapping[str, object] | Iterable[tuple[str, object]] = (), *names: str
) -> str:
    """Return one gcloud command line, quoted for the shell.

    A flag set to True is written without a value; False and None leave it out.
    """
    pairs = flags.items() if isinstance(flags, Mapping) else flags
    parts = ["gcloud", *subcommand.split(), *(shlex.quote(name) for name in names)]
    for flag, value in pairs:
        if value is True:
            parts.append(f"--{flag}")
        elif value is not None and value is not False:
            parts.append(f"--{flag}={shlex.quote(str(value))}")
    return " ".join(parts)
