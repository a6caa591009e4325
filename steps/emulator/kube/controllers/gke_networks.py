"""GKE's multi-networking: Network and GKENetworkParamSet become ready, nodes advertise their networks."""

from __future__ import annotations

import json

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.node import addressing

INTERFACES = "networking.gke.io/interfaces"
POD_IPS = "networking.gke.io/pod-ips"


def reconcile(kube: ClusterContext) -> None:
    params = {p["metadata"]["name"]: p for p in kube.store.list(kinds.GKE_NETWORK_PARAM_SET)}
    networks = kube.store.list(kinds.NETWORK)
    used = {n["spec"].get("parametersRef", {}).get("name") for n in networks}
    for name, param in params.items():
        _condition(
            kube,
            kinds.GKE_NETWORK_PARAM_SET,
            param,
            "Ready",
            name in used,
            "GNPReady" if name in used else "NetworkNotFound",
            "" if name in used else "no Network refers to this GKENetworkParamSet",
        )
    for network in networks:
        ref = network["spec"].get("parametersRef", {}).get("name", "")
        ready = ref in params or not ref
        _condition(
            kube,
            kinds.NETWORK,
            network,
            "ParamsReady",
            ready,
            "GNPParamsReady" if ready else "GNPNotFound",
            "" if ready else f"GKENetworkParamSet {ref} was not found",
        )
        if ready and ref:
            _advertise_network(kube, network["metadata"]["name"], params[ref])


def _condition(
    kube: ClusterContext, kind: Kind, obj: JSON, name: str, ready: bool, reason: str, message: str
) -> None:
    word = "True" if ready else "False"
    found = obj.get("status", {}).get("conditions", [])
    if found and (found[0]["status"], found[0]["reason"]) == (word, reason):
        return
    kube.set_status(
        kind,
        obj,
        conditions=[
            {
                "type": name,
                "status": word,
                "reason": reason,
                "message": message,
                "lastTransitionTime": kube.timestamp(),
            }
        ],
    )


def device_resource(network: str) -> str:
    """Return the extended resource that a pod's interface on a Device network consumes."""
    return f"networking.gke.io.networks/{network}.IP"


def _advertise_network(kube: ClusterContext, network: str, param: JSON) -> None:
    key, subnet = device_resource(network), param["spec"]["vpcSubnet"]
    for node in kube.store.list(kinds.NODE):
        wired = (node["metadata"].get("annotations") or {}).get("rehearsal/subnetworks", "").split(",")
        if key not in node["status"]["allocatable"] and subnet in [w.rsplit("/", 1)[-1] for w in wired]:

            def edit(n: JSON) -> None:
                for section in ("capacity", "allocatable"):
                    n["status"][section][key] = "1"

            kube.edit_object(kinds.NODE, node, edit)


def interfaces(pod: JSON) -> list[JSON]:
    """Return the interfaces a pod requests: [{interfaceName, network}]; empty for the default one or invalid text."""
    text = (pod["metadata"].get("annotations") or {}).get(INTERFACES, "")
    try:
        rows = json.loads(text) if text else []
    except ValueError:
        return []
    return [r for r in rows if isinstance(r, dict) and r.get("network")] if isinstance(rows, list) else []


def additional_interfaces(pod: JSON) -> list[JSON]:
    """Return the interfaces other than the pod network's."""
    return [r for r in interfaces(pod) if r["network"] != "default"]


def missing_network(kube: ClusterContext, pod: JSON) -> str:
    """Return the first network that a pod names and that does not exist; empty if all do."""
    return next(
        (
            r["network"]
            for r in additional_interfaces(pod)
            if kube.store.find(kinds.NETWORK, "", r["network"]) is None
        ),
        "",
    )


def pod_annotations(kube: ClusterContext, pod: JSON) -> dict[str, str]:
    """Return the annotations that GKE writes once the interfaces exist: their networks and addresses."""
    rows = [
        {"networkName": r["network"], "ip": addressing.device_address(kube, pod, r["network"], i)}
        for i, r in enumerate(additional_interfaces(pod))
    ]
    return {POD_IPS: json.dumps(rows)} if rows else {}
