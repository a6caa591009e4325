"""Service Usage: a project's enabled APIs.

Enabling takes seconds, and longer until calls succeed (api_enablement.py).
"""

from __future__ import annotations

import re

from grpo_wizard.steps.emulator.context import (
    JSON,
    ApiCall,
    ApiError,
    Record,
    ResourceStore,
    handles,
    on_event,
)
from grpo_wizard.steps.emulator.google.serviceusage.apis import (
    BILLABLE_APIS,
    DEFAULT_APIS,
    IMPLIED_APIS,
    TITLES,
)
from grpo_wizard.steps.emulator.google.shared import long_running
from grpo_wizard.steps.emulator.google.shared.lists import simple_page

SERVICE = "serviceusage.googleapis.com"
_ENABLING_S = 12.0  # inferred: gcloud users report 5 to 30 s for one API
_PROPAGATION_S = 60.0  # Google's own text: "wait a few minutes"
_MAX_BATCH = 20  # services of one batchEnable, as documented


def _project(call: ApiCall, name: str) -> str:
    project = call.store.project_id(name.split("/")[1]) if name.startswith("projects/") else ""
    if call.store.project_number(project) == "0":
        raise ApiError(
            403,
            f"Project '{name.split('/')[-1]}' not found or permission denied.",
            "PERMISSION_DENIED",
            "AUTH_PERMISSION_DENIED",
        )
    return project


def _key(project: str, service: str) -> str:
    return f"projects/{project}/services/{service}"


def view(store: ResourceStore, project: str, service: str) -> JSON:
    """Return the service of a project."""
    number = store.project_number(project)
    record = store.get(SERVICE, _key(project, service))
    on = record is not None and record.state in ("ready", "deleting")
    config: JSON = {
        "name": service,
        "title": TITLES.get(service, service),
        "documentation": {},
        "quota": {},
        "authentication": {},
        "usage": {},
    }
    return {
        "name": f"projects/{number}/services/{service}",
        "parent": f"projects/{number}",
        "config": config,
        "state": "ENABLED" if on else "DISABLED",
    }


def _check_known(service: str) -> str:
    if service not in TITLES:
        raise ApiError(
            403,
            f"Not found or permission denied for service(s): {service}.",
            "PERMISSION_DENIED",
            "SERVICE_CONFIG_NOT_FOUND_OR_PERMISSION_DENIED",
            [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "SERVICE_CONFIG_NOT_FOUND_OR_PERMISSION_DENIED",
                    "domain": "serviceusage.googleapis.com",
                    "metadata": {"services": service},
                }
            ],
        )
    return service


@handles("serviceusage.services.get")
def get(call: ApiCall) -> JSON:
    """Return one service of a project, enabled or not."""
    project = _project(call, call.params["name"])
    return view(call.store, project, _check_known(call.params["name"].split("/")[3]))


@handles("serviceusage.services.batchGet")
def batch_get(call: ApiCall) -> JSON:
    """Return several services of a project."""
    project = _project(call, call.params["parent"])
    names = [str(name).split("/")[-1] for name in call.params.get("names", [])]
    return {"services": [view(call.store, project, _check_known(name)) for name in names]}


@handles("serviceusage.services.list")
def list_all(call: ApiCall) -> JSON:
    """List a project's services by `filter` state:ENABLED or state:DISABLED, in pages of at most 200."""
    project = _project(call, call.params["parent"])
    wanted = re.fullmatch(r"\s*(?:state[:=](ENABLED|DISABLED))?\s*", call.params.get("filter", ""))
    if wanted is None:
        raise ApiError(
            400,
            f"Invalid filter: {call.params['filter']}. Only state:ENABLED and state:DISABLED are allowed.",
            "INVALID_ARGUMENT",
        )
    every = [view(call.store, project, name) for name in sorted(TITLES)]
    found = [service for service in every if wanted.group(1) in (None, service["state"])]
    return simple_page(call, "services", found, min(call.params.get("pageSize") or 50, 200))


@handles("serviceusage.services.enable")
def enable(call: ApiCall) -> JSON:
    """Enable one API."""
    project = _project(call, call.params["name"])
    return _start_enable(call, project, [call.params["name"].split("/")[3]], "acf", one=True)


@handles("serviceusage.services.batchEnable")
def batch_enable(call: ApiCall) -> JSON:
    """Enable up to 20 APIs."""
    project = _project(call, call.params["parent"])
    names = call.body.get("serviceIds", [])
    if not names or len(names) > _MAX_BATCH:
        raise ApiError(
            400, f"The number of services in a batch must be between 1 and {_MAX_BATCH}.", "INVALID_ARGUMENT"
        )
    return _start_enable(call, project, names, "acat", one=False)


def _start_enable(call: ApiCall, project: str, names: list[str], prefix: str, *, one: bool) -> JSON:
    for name in names:
        _check_known(name)
    _require_billing(call.store, project, names)
    number = call.store.project_number(project)
    on = [view(call.store, project, name) | {"state": "ENABLED"} for name in names]
    kind = "EnableServiceResponse" if one else "BatchEnableServicesResponse"
    response = {
        "@type": f"type.googleapis.com/google.api.serviceusage.v1.{kind}",
        **({"service": on[0]} if one else {"services": on}),
    }
    metadata = {
        "@type": "type.googleapis.com/google.api.serviceusage.v1.OperationMetadata",
        "resourceNames": [f"projects/{number}/services/{name}" for name in names],
    }
    fresh = any(call.store.get(SERVICE, _key(project, name)) is None for name in names)
    return long_running.start_operation(
        call,
        prefix,
        _ENABLING_S if fresh else 0,
        response,
        metadata,
        project,
        "apis.enabled",
        {"project": project, "names": names},
    )


def _require_billing(store: ResourceStore, project: str, names: list[str]) -> None:
    """Raise 400 for a billable API in a project without billing."""
    record = store.get("cloudresourcemanager.googleapis.com", f"projects/{project}")
    wanted = [
        name for name in names if name in BILLABLE_APIS or BILLABLE_APIS & set(IMPLIED_APIS.get(name, ()))
    ]
    if not wanted or record is None or record.extra.get("billing"):
        return
    number = store.project_number(project)
    listed = ",".join(wanted)
    violation = {
        "type": "googleapis.com/billing-enabled",
        "subject": number,
        "description": "billing-enabled",
    }
    raise ApiError(
        400,
        f"Billing account for project '{number}' is not found. Billing must be enabled for activation of "
        f"service(s) '{listed}' to proceed.",
        "FAILED_PRECONDITION",
        "UREQ_PROJECT_BILLING_NOT_FOUND",
        [{"@type": "type.googleapis.com/google.rpc.PreconditionFailure", "violations": [violation]}],
    )


@on_event("apis.enabled")
def on_enabled(store: ResourceStore, project: str, names: list[str]) -> None:
    """Enable APIs, with those that they depend on."""
    brought = {other for name in names for other in IMPLIED_APIS.get(name, ())}
    for name in [*names, *sorted(brought - set(names))]:
        old = store.get(SERVICE, _key(project, name))
        if old is None:
            put_service(
                store,
                project,
                name,
                derived=name in brought and name not in names,
                effective_at=store.clock.now() + store.clock.scale(_PROPAGATION_S),
            )
        elif old.derived and name in names:
            old.derived = False


def put_service(
    store: ResourceStore,
    project: str,
    name: str,
    *,
    derived: bool = False,
    hidden: bool = False,
    effective_at: float = 0,
) -> None:
    """Store an enabled API; it stays enabled after a deployment is destroyed."""
    body = {"name": f"projects/{store.project_number(project)}/services/{name}", "state": "ENABLED"}
    store.put(
        Record(
            SERVICE,
            "api",
            name,
            project,
            "global",
            _key(project, name),
            body,
            kept_by_design=True,
            derived=derived,
            hidden=hidden,
            extra={"felt_at": effective_at},
        )
    )


@handles("serviceusage.services.disable")
def disable(call: ApiCall) -> JSON:
    """Disable an API. Rejected while another enabled API needs it, unless disableDependentServices is set."""
    project = _project(call, call.params["name"])
    name = _check_known(call.params["name"].split("/")[3])
    needing = [
        other
        for other, brings in IMPLIED_APIS.items()
        if name in brings and call.store.get(SERVICE, _key(project, other))
    ]
    if needing and not call.body.get("disableDependentServices"):
        raise ApiError(
            400,
            f"The service {name} is depended on by the following active service(s): {','.join(needing)}; "
            "Please specify "
            "disable_dependent_services=true if you want to proceed with disabling all services.",
            "FAILED_PRECONDITION",
        )
    off = view(call.store, project, name) | {"state": "DISABLED"}
    response = {
        "@type": "type.googleapis.com/google.api.serviceusage.v1.DisableServiceResponse",
        "service": off,
    }
    metadata = {
        "@type": "type.googleapis.com/google.api.serviceusage.v1.OperationMetadata",
        "resourceNames": [off["name"]],
    }
    return long_running.start_operation(
        call,
        "acf",
        _ENABLING_S,
        response,
        metadata,
        project,
        "apis.disabled",
        {"project": project, "names": [name, *needing]},
    )


@on_event("apis.disabled")
def on_disabled(store: ResourceStore, project: str, names: list[str]) -> None:
    """Disable APIs."""
    for name in names:
        record = store.get(SERVICE, _key(project, name))
        if record is not None:
            store.remove(record)


def add_default_apis(store: ResourceStore, project: str) -> None:
    """Enable a new project's APIs, as part of the initial state."""
    for name in DEFAULT_APIS:
        put_service(store, project, name, hidden=True)
