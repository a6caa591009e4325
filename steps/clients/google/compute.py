"""Networks, subnets, firewalls and global addresses: four collections of Compute Engine that work alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo_wizard.steps.clients.context import Cloud, absent_is_none, call
from grpo_wizard.steps.clients.driver import Driver, Progress, Task
from grpo_wizard.steps.clients.errors import CloudError, outcome
from grpo_wizard.steps.clients.serialization import JSON, differences, mark_in, marked, message
from grpo_wizard.steps.core.model import Sight

_MODULE = "google.cloud.compute_v1"


@dataclass(frozen=True)
class _Collection:
    client: str
    argument: str
    message: str
    regional: bool = False


_COLLECTIONS = {
    "network": _Collection("NetworksClient", "network", "Network"),
    "subnet": _Collection("SubnetworksClient", "subnetwork", "Subnetwork", regional=True),
    "firewall": _Collection("FirewallsClient", "firewall", "Firewall"),
    "address": _Collection("GlobalAddressesClient", "address", "Address"),
}


def compute(cloud: Cloud, client: str) -> Any:
    return cloud.rest("compute", _MODULE, client)


class ComputeDriver(Driver):
    """`insert(...).result()` would poll compute.googleapis.com whatever the endpoint says: the unary calls are used, and operations are asked after here."""

    def __init__(self, kind: str) -> None:
        self._about = _COLLECTIONS[kind]

    def _where(self, task: Task) -> JSON:
        place = {"project": task.at("project")}
        return place | {"region": task.at("region")} if self._about.regional else place

    def _named(self, task: Task) -> JSON:
        return self._where(task) | {self._about.argument: task.name}

    def fetch(self, cloud: Cloud, task: Task) -> JSON | None:
        """The thing as Compute returns it, None when it is not there."""
        return absent_is_none(compute(cloud, self._about.client).get, "compute", self._named(task))

    def look(self, cloud: Cloud, task: Task) -> Sight:
        live = self.fetch(cloud, task)
        if live is None:
            return Sight()
        facts = {"self_link": live.get("selfLink", "")}
        if "prefixLength" in live and "address" in live:
            facts["cidr"] = f"{live['address']}/{live['prefixLength']}"
        return Sight(
            "ready",
            mark_in(live, "description", "labels"),
            str(live.get("id", "")),
            tuple(differences(_echoed(task.spec), live)),
            facts=facts,
        )

    def create(self, cloud: Cloud, task: Task) -> str:
        import google.cloud.compute_v1 as types

        body = marked(task.spec, task.mark, "description")
        if self._about.argument == "address":
            body = marked(body, task.mark, "labels")
        request = self._where(task) | {
            f"{self._about.argument}_resource": message(getattr(types, self._about.message), body),
            "request_id": task.request_id,
        }
        return str(call("compute", compute(cloud, self._about.client).insert_unary, request=request).name)

    def proof(self, cloud: Cloud, task: Task) -> bool:
        try:
            return bool(self.create(cloud, task))
        except CloudError as error:
            if error.kind == "exists":
                return False
            raise

    def delete(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        return str(
            call("compute", compute(cloud, self._about.client).delete_unary, request=self._named(task)).name
        )

    def progress(self, cloud: Cloud, task: Task, operation: str) -> Progress:
        if not self._about.regional:
            return global_operation(cloud, task.at("project"), operation)
        client = compute(cloud, "RegionOperationsClient")
        return _progress(call("compute", client.get, request=self._where(task) | {"operation": operation}))


def global_operation(cloud: Cloud, project: str, operation: str) -> Progress:
    """How far one of Compute's global operations is; raises CloudError when it ended with an error."""
    return _progress(
        call(
            "compute",
            compute(cloud, "GlobalOperationsClient").get,
            request={"project": project, "operation": operation},
        )
    )


def _progress(seen: Any) -> Progress:
    if seen.status.name != "DONE":
        return Progress(False)
    if seen.error.errors or seen.http_error_status_code:
        first = seen.error.errors[0] if seen.error.errors else None
        raise outcome(
            "compute.googleapis.com",
            int(seen.http_error_status_code or 0),
            str(first.message if first else seen.http_error_message),
            str(first.code if first else ""),
        )
    return Progress(True)


def _echoed(spec: Mapping[str, Any]) -> JSON:
    """What Compute says again when it is asked: a range's IP version it takes and keeps to itself."""
    return {key: value for key, value in spec.items() if key != "ipVersion"}


class NetworkDriver(ComputeDriver):
    """A network cannot go while firewall rules use it, and GKE leaves its own behind: those are taken away first, on this network only."""

    def __init__(self) -> None:
        super().__init__("network")

    def delete(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        gke, others = self._rules(cloud, task)
        if (gke or others) and _lived_on(cloud, task):
            gke, others = [], []  # of a cluster that lives here: they go with it
        if others:
            raise CloudError(
                "conflict",
                f"network {task.name} is used by firewall rules that this deployment did not make",
                ", ".join(others),
                "delete them, or let their owner do so, then run destroy again",
            )
        for rule in gke:
            task.tell(f"firewall rule {rule} was left behind by GKE on {task.name}: deleting it")
            call(
                "compute",
                compute(cloud, "FirewallsClient").delete_unary,
                request={"project": task.at("project"), "firewall": rule},
            )
        return super().delete(cloud, task, sight)

    def insist(self, cloud: Cloud, task: Task) -> str | None:
        """A services connection that others made on it and left empty: it serves nobody, and is cut from our side."""
        from grpo_wizard.steps.clients.google.peering import connection, cut

        live = connection(cloud, task.at("project"), task.name)
        if not live or live.get("reservedPeeringRanges") or not live.get("peering"):
            return None
        task.tell(f"a peering without ranges holds {task.name}: removing it from this side")
        return cut(cloud, task.at("project"), task.name, str(live["peering"]))

    def _rules(self, cloud: Cloud, task: Task) -> tuple[list[str], list[str]]:
        """Names of the rules on exactly this network: those that GKE made for our own cluster, and all others.

        The whole list is read and compared here: a server-side filter matches words, and would name rules of other networks too
        (gcloud-wire.md §6).
        """
        rules = call(
            "compute", compute(cloud, "FirewallsClient").list, request={"project": task.at("project")}
        )
        mine = f"/projects/{task.at('project')}/global/networks/{task.name}"
        cluster = task.resource.where.get("gke", "")
        here = [rule for rule in rules if rule.network.endswith(mine)]
        gke = [rule.name for rule in here if _made_by_gke(rule, cluster)]
        return gke, [rule.name for rule in here if rule.name not in gke]


def _made_by_gke(rule: Any, cluster: str) -> bool:
    """Whether a rule is one of those that GKE makes for this cluster: named by it, bound to its nodes' tag, described by nobody.

    The tag is gke-CLUSTER-HASH-node, of a long name its first 25 characters (GKE's page on firewall rules it makes, 2026; the
    cut as Terraform's module for GKE has it). A person's own rule has a description or other targets.
    """
    tag = re.compile(rf"gke-{re.escape(cluster[:25])}-[0-9a-f]{{8}}-node")
    described = bool(rule.description) and not rule.description.startswith('{"kubernetes.io/')
    return bool(
        cluster
        and rule.name.startswith(("gke-", "k8s-"))
        and not described
        and rule.target_tags
        and all(tag.fullmatch(target) for target in rule.target_tags)
    )


def _lived_on(cloud: Cloud, task: Task) -> bool:
    """Whether a cluster still lives on this network: GKE's rules there are its own, and not left behind."""
    from grpo_wizard.steps.clients.google.gke import container

    request = {"parent": f"projects/{task.at('project')}/locations/-"}
    try:
        listed = call("container", container(cloud).list_clusters, request=request)
    except CloudError as error:
        if error.kind == "api_disabled":
            return True  # a cluster lives on while the API is off: its rules are not touched unseen
        raise
    return any(cluster.network == task.name for cluster in listed.clusters)
