"""Managed Lustre instances: create, read, grow, delete, import, export; addresses from the private services range.

The service's error texts are not published: all are inferred.
"""

from __future__ import annotations

import copy
import ipaddress
import re
import secrets
import shutil

from grpo_wizard.steps.emulator.context import (
    JSON,
    ApiCall,
    ApiError,
    Record,
    ResourceStore,
    handles,
    lustre_folder,
    server_context,
)
from grpo_wizard.steps.emulator.google.compute.networks import peerings_of
from grpo_wizard.steps.emulator.google.compute.networks import resolve_network as find_network
from grpo_wizard.steps.emulator.google.lustre.operations import (
    get_named,
    list_in_location,
    on_complete,
    start_operation,
    to_any,
)
from grpo_wizard.steps.emulator.google.lustre.tiers import check_growth, get_tier
from grpo_wizard.steps.emulator.google.servicenetworking.connections import delay_disconnect
from grpo_wizard.steps.emulator.google.shared.filters import parse_filter
from grpo_wizard.steps.emulator.google.shared.fixtures import load_fixtures, zones, zones_of
from grpo_wizard.steps.emulator.google.shared.ids import utc_timestamp
from grpo_wizard.steps.emulator.google.shared.operation_records import handles_idempotent
from grpo_wizard.steps.emulator.google.shared.self_links import COMPUTE, LUSTRE, basename

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_FILESYSTEM = re.compile(r"[a-zA-Z][a-zA-Z0-9]{0,7}")
_MAX_INSTANCES = 20  # instances per project (https://docs.cloud.google.com/managed-lustre/docs/quotas)
Net = ipaddress.IPv4Network


def _error(message: str, status: str = "INVALID_ARGUMENT") -> ApiError:
    return ApiError(400, message, status, "badRequest")


def _parse_zone_parent(parent: str) -> tuple[str, str]:
    """Return (project, zone) of a parent.

    Lustre is available in zones with accelerators, and in the first three zones of their regions.
    """
    parts = parent.split("/")
    if parts[3] not in lustre_zones():
        raise _error(f"Location {parts[3]} is not supported. Managed Lustre instances are zonal.")
    return parts[1], parts[3]


def lustre_zones() -> list[str]:
    """Return the zones with Lustre.

    Inferred: all zones of regions with A4 or A3 Ultra (the real list is not published as data).
    """
    regions = {zones()[zone] for zone in load_fixtures()["roce_zones"]}
    return [zone for region in sorted(regions) for zone in zones_of(region)]


@handles("lustre.projects.locations.instances.get")
def get(call: ApiCall) -> JSON:
    """Return one instance."""
    return copy.deepcopy(get_named(call, "lustre").body)


@handles("lustre.projects.locations.instances.list")
def list_(call: ApiCall) -> JSON:
    """List a zone's instances, or all (`-`)."""
    records = list_in_location(call.store, "lustre", str(call.params["parent"]))
    test = parse_filter(str(call.params.get("filter", "")))
    return {"instances": [copy.deepcopy(record.body) for record in records if test(record.body)]}


@handles_idempotent("lustre.projects.locations.instances.create")
def create(call: ApiCall) -> JSON:
    """Create an instance. Takes half an hour or more; its address is allocated at the end."""
    project, zone = _parse_zone_parent(str(call.params["parent"]))
    name = str(call.params.get("instanceId", ""))
    if not _NAME.fullmatch(name):
        raise _error(
            f"Invalid instance ID '{name}'. Must be 1 to 63 lower-case letters, digits or hyphens, starting "
            "with a letter."
        )
    key = f"projects/{project}/locations/{zone}/instances/{name}"
    if call.store.get(LUSTRE, key):
        raise ApiError(409, f"Resource '{key}' already exists", "ALREADY_EXISTS", "alreadyExists")
    if len(call.store.all(LUSTRE, "lustre", project=project)) >= _MAX_INSTANCES:
        raise ApiError(
            429,
            f"Quota limit 'InstancesPerProject' has been exceeded. Limit: {_MAX_INSTANCES}.",
            "RESOURCE_EXHAUSTED",
            "rateLimitExceeded",
        )
    network = _check(call.store, project, call.body)
    record = call.store.put(
        Record(
            LUSTRE,
            "lustre",
            name,
            project,
            zone,
            key,
            _new_body(call, key, network),
            "creating",
            extra={"network": network.key},
        )
    )
    return start_operation(call, "create", "lustre.create", record, "lustre.made")


def _check(store: ResourceStore, project: str, body: JSON) -> Record:
    if not _FILESYSTEM.fullmatch(str(body.get("filesystem", ""))):
        raise _error(
            f"Invalid filesystem name '{body.get('filesystem', '')}'. Must start with a letter and have at "
            "most 8 letters and digits."
        )
    throughput = body.get("perUnitStorageThroughput")
    if throughput and body.get("dynamicTierOptions"):  # cluster-toolkit pull 5791; text inferred
        raise _error("perUnitStorageThroughput must not be set together with dynamicTierOptions.")
    get_tier(
        int(throughput) if throughput else None,
        int(body.get("capacityGib") or 0),
        dynamic=bool(body.get("dynamicTierOptions")),
    )
    if not str(body.get("network", "")).startswith("projects/"):
        raise _error(
            f"Invalid network '{body.get('network', '')}'. Must be projects/PROJECT/global/networks/NETWORK."
        )
    network = find_network(store, project, body["network"])
    if network is None:
        raise _error(f"Network '{body['network']}' was not found.", "NOT_FOUND")
    if not allocated_ranges(store, network):
        raise _error(
            f"Network '{body['network']}' has no private services connection with "
            "servicenetworking.googleapis.com and an allocated range. "
            "Create one before the instance.",
            "FAILED_PRECONDITION",
        )
    return network


def _new_body(call: ApiCall, key: str, network: Record) -> JSON:
    kept = {name: value for name, value in call.body.items() if name != "name"}
    return {
        **kept,
        "name": key,
        "network": network.key,
        "state": "CREATING",
        "createTime": utc_timestamp(call.store),
        "updateTime": utc_timestamp(call.store),
        "uid": secrets.token_hex(16),
    }


def allocated_ranges(store: ResourceStore, network: Record) -> list[Net]:
    """Return the allocated ranges of a network's private services connection."""
    found = []
    for peering in peerings_of(store, network):
        for name in peering.body.get("reservedPeeringRanges", []):
            address = store.get(COMPUTE, f"projects/{network.project}/global/addresses/{name}")
            if address is not None and peering.state == "ready":
                found.append(Net(f"{address.body['address']}/{address.body['prefixLength']}"))
    return found


def _free_range(store: ResourceStore, network: Record) -> Net:
    """Return a /24 of the allocated ranges that no other instance uses."""
    taken = [
        Net(other.extra["range"])
        for other in store.all(LUSTRE, "lustre")
        if other.extra.get("network") == network.key and other.extra.get("range")
    ]
    for whole in allocated_ranges(store, network):
        for part in whole.subnets(new_prefix=24) if whole.prefixlen <= 24 else []:
            if not any(part.overlaps(other) for other in taken):
                return part
    raise ApiError(
        429,
        "Couldn't find free blocks in allocated IP ranges. Please allocate new ranges for this service "
        "provider.",
        "RESOURCE_EXHAUSTED",
    )


@on_complete("lustre.made")
def _on_created(store: ResourceStore, target: Record) -> JSON:
    network = store.get(COMPUTE, target.extra["network"])
    if network is None:
        raise ApiError(400, f"Network '{target.body['network']}' was not found.", "FAILED_PRECONDITION")
    block = _free_range(store, network)
    target.extra["range"] = str(block)
    target.body["mountPoint"] = f"{block[2]}@tcp:/{target.body['filesystem']}"
    return _set_active(store, target)


def _set_active(store: ResourceStore, target: Record) -> JSON:
    target.state = "ready"
    target.body.update(state="ACTIVE", updateTime=utc_timestamp(store))
    store.put(target)
    return to_any("Instance", copy.deepcopy(target.body))


def _get_idle(call: ApiCall) -> Record:
    """Return the instance that a call names.

    Raises an error while an operation runs; the text is inferred.
    """
    record = get_named(call, "lustre")
    if record.body["state"] != "ACTIVE":
        raise _error(
            f"Resource '{record.key}' is in state {record.body['state']} and cannot be changed now.",
            "FAILED_PRECONDITION",
        )
    return record


@handles_idempotent("lustre.projects.locations.instances.patch")
def patch(call: ApiCall) -> JSON:
    """Grow an instance, or change its description or labels. Everything else is immutable."""
    record = _get_idle(call)
    mask = [
        part
        for part in str(call.params.get("updateMask") or ",".join(call.body)).split(",")
        if part and part != "name"
    ]
    change: JSON = {}
    for field in (_camel(part) for part in mask):
        if field not in ("capacityGib", "description", "labels"):
            raise _error(f"Field '{field}' is immutable.")
        change[field] = call.body.get(field, {} if field == "labels" else "")
    if "capacityGib" in change:
        _check_growth(record, int(change["capacityGib"] or 0))
    record.state, record.body["state"] = "ready", "UPDATING"
    call.store.put(record)
    return start_operation(call, "update", "lustre.update", record, "lustre.changed", change=change)


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found.group(1).upper(), name)


def _check_growth(record: Record, new: int) -> None:
    body = record.body
    throughput = body.get("perUnitStorageThroughput")
    tier = get_tier(
        int(throughput) if throughput else None, new, dynamic=bool(body.get("dynamicTierOptions"))
    )
    check_growth(tier, int(body["capacityGib"]), new)


@on_complete("lustre.changed")
def _on_changed(store: ResourceStore, target: Record, change: JSON) -> JSON:
    target.body.update(change)
    return _set_active(store, target)


@handles_idempotent("lustre.projects.locations.instances.delete")
def delete(call: ApiCall) -> JSON:
    """Delete an instance with its data. Its producer releases the peering some time later."""
    record = _get_idle(call)
    record.state, record.body["state"] = "deleting", "DELETING"
    call.store.put(record)
    return start_operation(call, "delete", "lustre.delete", record, "lustre.gone")


@on_complete("lustre.gone")
def _on_deleted(store: ResourceStore, target: Record) -> JSON:
    store.remove(target)
    handle = f"{target.project}/{target.location}/{target.name}"
    shutil.rmtree(lustre_folder(server_context().folder / "kube", handle), ignore_errors=True)
    delay_disconnect(store, target.project, basename(target.extra["network"]))
    return {"@type": "type.googleapis.com/google.protobuf.Empty"}


@handles_idempotent(
    "lustre.projects.locations.instances.exportData", "lustre.projects.locations.instances.importData"
)
def transfer(call: ApiCall) -> JSON:
    """Import or export: the operation takes its time and succeeds; there are no buckets, so no data is copied
    and no access is checked.
    """
    record = _get_idle(call)
    bucket = str(call.body.get("gcsPath", {}).get("uri", ""))
    if not re.fullmatch(r"gs://[a-z0-9][-_.a-z0-9]{1,61}[a-z0-9](/.*)?", bucket):
        raise _error(f"Invalid gcsPath.uri '{bucket}'. Must be gs://BUCKET or gs://BUCKET/PATH/.")
    path = str(call.body.get("lustrePath", {}).get("path", "/"))
    if not path.startswith("/"):  # the message's own comment: the path must start with '/'; text inferred
        raise _error(f"Invalid lustrePath.path '{path}'. Must start with '/'.")
    verb = "export" if call.method_id.endswith("exportData") else "import"
    return start_operation(
        call, verb, "lustre.transfer", record, f"lustre.{verb}", f"{verb.capitalize()}DataMetadata"
    )


@on_complete("lustre.export")
def _on_exported(store: ResourceStore, target: Record) -> JSON:
    return to_any("ExportDataResponse", {})


@on_complete("lustre.import")
def _on_imported(store: ResourceStore, target: Record) -> JSON:
    return to_any("ImportDataResponse", {})


@handles("lustre.projects.locations.list")
def locations(call: ApiCall) -> JSON:
    """List the zones with Lustre."""
    project = str(call.params["name"])
    return {"locations": [_location(project, zone) for zone in lustre_zones()]}


def _location(project: str, zone: str) -> JSON:
    return {"name": f"{project}/locations/{zone}", "locationId": zone, "displayName": zone}


@handles("lustre.projects.locations.get")
def location(call: ApiCall) -> JSON:
    """Return one zone."""
    project, zone = str(call.params["name"]).split("/locations/")
    if zone not in lustre_zones():
        raise ApiError(404, f"Location {zone} was not found", "NOT_FOUND", "notFound")
    return _location(project, zone)
