"""Route a pod's logs, exec and port-forward requests, and check access."""

from __future__ import annotations

from aiohttp import web

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import status
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.streams import exec, logs, port_forward


def container_of(pod: JSON, name: str) -> JSON:
    """Return the container of a stream.

    Raises 400 if the pod has several and none, or an unknown one, is named.
    """
    spec, title = pod["spec"], pod["metadata"]["name"]
    inits = spec.get("initContainers", [])
    if not name and len(spec["containers"]) == 1:
        return dict(spec["containers"][0])
    found = next((c for c in (*spec["containers"], *inits) if c["name"] == name), None)
    if found is not None:
        return dict(found)
    choice = f"choose one of: [{' '.join(c['name'] for c in spec['containers'])}]"
    choice += f" or one of the init containers: [{' '.join(c['name'] for c in inits)}]" if inits else ""
    if not name:
        raise status.bad_request(f"a container name must be specified for pod {title}, {choice}")
    raise status.bad_request(f"container {name} is not valid for pod {title}")


async def serve(kube: ClusterContext, pod: JSON, what: str, request: web.Request) -> web.StreamResponse:
    """Serve a stream request on an existing pod."""
    if not pod["spec"].get("nodeName"):
        raise status.bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    if what == "portforward":
        return await port_forward.serve(kube, pod, request)
    name = request.query.get("container", "")
    if what == "exec" and not name:
        name = pod["spec"]["containers"][0]["name"]
    container = container_of(pod, name)
    if what == "log":
        return await logs.serve(kube, pod, container, request)
    return await exec.serve(kube, pod, container, request)
