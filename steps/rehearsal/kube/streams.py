"""Logs, exec and port-forward of a pod."""

from __future__ import annotations

from aiohttp import web

from grpo_wizard.steps.rehearsal.contract import JSON
from grpo_wizard.steps.rehearsal.kube import status
from grpo_wizard.steps.rehearsal.kube.core import Kube


async def serve(kube: Kube, pod: JSON, what: str, request: web.Request) -> web.StreamResponse:
    """One stream request on a pod that exists."""
    raise status.StatusError(501, "NotImplemented", f"not rehearsed yet: {what}")
