"""Troubles that can be rehearsed by name, worded as in real failures: lists of faults (wire.py), and those of Kubernetes (kube/drills.py).

At the start by `--drill NAME`, in a running server by `POST /_rehearsal/drills/NAME`.
`DELETE /_rehearsal/drills/NAME` ends one, `DELETE /_rehearsal/drills` all.
"""

from __future__ import annotations

from typing import Any

from .contract import KUBES
from .kube import drills as kubernetes
from .wire import Fault

JSON = dict[str, Any]
_POOLS = {"service": "container.googleapis.com", "method": "POST", "path": "*/nodePools"}
_NUMBER = "123456789012"


def _error(code: int, status: str, message: str, reason: str = "", metadata: JSON | None = None) -> JSON:
    """`do` of a fault that answers with Google's error document."""
    error: JSON = {"code": code, "message": message, "status": status}
    if reason:
        kind = "type.googleapis.com/google.rpc.ErrorInfo"
        info = {"@type": kind, "reason": reason, "domain": "googleapis.com", "metadata": metadata or {}}
        error["details"] = [info]
    return {"status": code, "body": {"error": error}}


_ACTIVATION = (
    "https://console.developers.google.com/apis/api/container.googleapis.com/overview?project=" + _NUMBER
)
DRILLS: dict[str, tuple[JSON, ...]] = {
    # The pool's operation ends after about 35 min (÷ speed) with an error; the pool stays in ERROR.
    # NVIDIA/aicr 2764.
    "stock-out": (
        {
            "match": {**_POOLS, "nth": 1},
            "do": {
                "operation_error": {
                    "code": 8,
                    "message": "Google Compute Engine: Not all instances running in IGM after "
                    "35m4.033429035s. Expected 1, running 0, transitioning 1. Current errors: [GCE_STOCKOUT]: Instance "
                    "creation "
                    "failed: The zone 'projects/my-project/zones/us-central1-b' does not have enough "
                    "resources "
                    "available to fulfill the request. '(resource type:compute)'.",
                }
            },
        },
    ),
    "quota-short": (
        {
            "match": {"service": "container.googleapis.com", "method": "POST", "path": "*/clusters"},
            "do": _error(
                403,
                "PERMISSION_DENIED",
                'Insufficient regional quota to satisfy request: resource "N2_CPUS": request requires '
                "'240.0' "
                "and is short '40.0'. project has a quota of '200.0' with '200.0' available. View and manage "
                "quotas at https://console.cloud.google.com/iam-admin/quotas?usage=USED&project=my-project.",
            ),
        },
    ),
    "reservation-gone": (
        {
            "match": {"service": "compute.googleapis.com", "method": "GET", "path": "*/reservations/*"},
            "do": _error(
                404,
                "NOT_FOUND",
                "The resource 'projects/my-project/zones/us-central1-b/reservations/nemo-res' was not found",
            ),
        },
        {
            "match": _POOLS,
            "do": _error(
                400, "INVALID_ARGUMENT", 'Specified reservation "nemo-res" does not exist in the zone.'
            ),
        },
    ),
    "api-disabled": (
        {
            "match": {"service": "container.googleapis.com"},
            "do": _error(
                403,
                "PERMISSION_DENIED",
                f"Kubernetes Engine API has not been used in project {_NUMBER} before or it is disabled. "
                "Enable "
                f"it by visiting {_ACTIVATION} then retry. If you enabled this API recently, wait a few "
                "minutes "
                "for the action to propagate to our systems and retry.",
                "SERVICE_DISABLED",
                {
                    "service": "container.googleapis.com",
                    "consumer": f"projects/{_NUMBER}",
                    "activationUrl": _ACTIVATION,
                },
            ),
        },
    ),
    "org-policy": (
        {
            "match": {"service": "compute.googleapis.com", "method": "POST", "path": "*/global/addresses"},
            "do": _error(
                412,
                "FAILED_PRECONDITION",
                "Constraint constraints/compute.restrictVpcPeering violated for project my-project. "
                "Peering the "
                "network with 'servicenetworking' is not allowed.",
            ),
        },
        {
            "match": _POOLS,
            "do": {
                "operation_error": {
                    "code": 9,
                    "message": "Not all instances running in IGM after 32.252902304s. Expected 1, running 0, "
                    "transitioning 1. Current errors: [CONDITION_NOT_MET]: Instance creation failed: "
                    "Constraint "
                    "constraints/compute.requireShieldedVm violated for project projects/my-project. "
                    "Secure Boot "
                    "is not enabled in the 'shielded_instance_config' field.",
                }
            },
        },
    ),
    # As tokens do in the middle of a long apply: the first requests pass.
    "expired-credentials": tuple(
        {
            "match": {"service": "*.googleapis.com", "nth": number},
            "do": _error(
                401,
                "UNAUTHENTICATED",
                "Request had invalid authentication credentials. Expected OAuth 2 access token, login "
                "cookie or "
                "other valid authentication credential. See "
                "https://developers.google.com/identity/sign-in/web/devconsole-project.",
                "ACCESS_TOKEN_EXPIRED",
            ),
        }
        for number in range(20, 60)
    ),
}


def begin(name: str, faults: list[Fault]) -> None:
    """Starts a drill: its faults are added, or Kubernetes begins to misbehave. Raises ValueError with the names that there are."""
    if name in kubernetes.WORLD:
        kubernetes.begin(name)
        _wake()
    else:
        faults += faults_of(name)


def end(name: str, faults: list[Fault]) -> None:
    """Ends one drill. Raises ValueError with the names that there are."""
    if name in kubernetes.WORLD:
        kubernetes.end(name)
        _wake()
    else:
        mine = [(fault.match, fault.do) for fault in faults_of(name)]
        faults[:] = [fault for fault in faults if (fault.match, fault.do) not in mine]


def end_all(faults: list[Fault]) -> None:
    """Ends all drills, and every fault of a fault file with them."""
    faults.clear()
    kubernetes.end_all()
    _wake()


def _wake() -> None:
    for kube in KUBES.values():
        kube.pools_changed()


def faults_of(name: str) -> list[Fault]:
    """The faults of a drill. Raises ValueError with the names that there are."""
    if name not in DRILLS:
        raise ValueError(
            f"No drill is called {name!r}; there are: {', '.join([*DRILLS, *kubernetes.WORLD])}."
        )
    return [Fault(entry["match"], entry["do"]) for entry in DRILLS[name]]
