"""Cloud Quotas: the quota infos of the B200 and H200 GPUs.

Ids follow Google's documentation; not verified against the live API. preferences.py has the requests for
more.
"""

from __future__ import annotations

from collections.abc import Iterable

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, handles
from grpo_wizard.steps.emulator.google.serviceusage.apis import TITLES
from grpo_wizard.steps.emulator.google.shared.fixtures import load_fixtures, regions
from grpo_wizard.steps.emulator.google.shared.lists import simple_page

SERVICE = "cloudquotas.googleapis.com"
_COMPUTE = "compute.googleapis.com"
_FAMILIES = (
    "NVIDIA_A100",
    "NVIDIA_A100_80GB",
    "NVIDIA_B200",
    "NVIDIA_H100",
    "NVIDIA_H100_MEGA",
    "NVIDIA_H200",
    "NVIDIA_L4",
    "NVIDIA_T4",
)
# Granted to a project with reservations for 4 machines of 8 GPUs each; everywhere else a new project's 0.
_GRANTED = {
    ("us-central1", "NVIDIA_B200"): 32,
    ("us-central1", "NVIDIA_H200"): 32,
    ("us-central1", "NVIDIA_L4"): 16,
    ("us-central1", "NVIDIA_T4"): 16,
}


def _info(
    call: ApiCall,
    quota: str,
    metric: str,
    dimensions: list[str],
    rows: Iterable[tuple[JSON, float, list[str]]],
) -> JSON:
    asked = str(call.params.get("parent") or call.params["name"])
    number = call.store.project_number(asked.split("/")[1])
    return {
        "name": f"projects/{number}/locations/global/services/{_COMPUTE}/quotaInfos/{quota}",
        "quotaId": quota,
        "metric": f"{_COMPUTE}/{metric}",
        "service": _COMPUTE,
        "containerType": "PROJECT",
        "dimensions": dimensions,
        "metricDisplayName": metric.replace("_", " "),
        "quotaDisplayName": metric.replace("_", " "),
        "metricUnit": "1",
        "isPrecise": True,
        "quotaIncreaseEligibility": {"isEligible": True},
        "dimensionsInfos": [
            {"dimensions": where, "details": {"value": str(int(value))}, "applicableLocations": locations}
            for where, value, locations in rows
        ],
    }


def _gpu_quota(call: ApiCall, quota: str, metric: str) -> JSON:
    granted = {} if metric.startswith("preemptible") else _GRANTED
    rows = [
        ({"gpu_family": family, "region": region}, granted.get((region, family), 0), [region])
        for family in _FAMILIES
        for region in regions()
    ]
    return _info(call, quota, metric, ["gpu_family", "region"], rows)


def quota_infos(call: ApiCall) -> list[JSON]:
    """Return Compute's quotas that are emulated, by id."""
    limits = load_fixtures()["quotas"]
    found = [
        _gpu_quota(call, "GPUS-PER-GPU-FAMILY-per-project-region", "gpus_per_gpu_family"),
        _gpu_quota(
            call, "PREEMPTIBLE-GPUS-PER-GPU-FAMILY-per-project-region", "preemptible_gpus_per_gpu_family"
        ),
    ]
    for metric, limit in limits["project"].items():
        found.append(
            _info(
                call, f"{metric.replace('_', '-')}-per-project", metric.lower(), [], [({}, limit, ["global"])]
            )
        )
    for metric, limit in limits["region"].items():
        rows: list[tuple[JSON, float, list[str]]] = [({}, limit, regions())]
        found.append(
            _info(call, f"{metric.replace('_', '-')}-per-project-region", metric.lower(), ["region"], rows)
        )
    return sorted(found, key=lambda info: str(info["quotaId"]))


@handles("cloudquotas.projects.locations.services.quotaInfos.list")
def list_infos(call: ApiCall) -> JSON:
    """List the quotas of one service, in pages."""
    service = call.params["parent"].split("/")[5]
    if service not in TITLES:
        raise ApiError(404, f"Service {service} not found.", "NOT_FOUND")
    found = quota_infos(call) if service == _COMPUTE else []
    return simple_page(call, "quotaInfos", found, call.params.get("pageSize") or 100)


@handles("cloudquotas.projects.locations.services.quotaInfos.get")
def get_info(call: ApiCall) -> JSON:
    """Return one quota by its id."""
    quota = call.params["name"].rpartition("/")[2]
    found = next((info for info in quota_infos(call) if info["quotaId"] == quota), None)
    if found is None or call.params["name"].split("/")[5] != _COMPUTE:
        raise ApiError(404, f"Quota info '{call.params['name']}' not found.", "NOT_FOUND")
    return found
