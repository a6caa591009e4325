"""Organisation policies in force. This world's projects stand in no organisation: every constraint has Google's own default.

But for the drill org-policy, in which two are set.
"""

from __future__ import annotations

from ..contract import JSON, Call, serves
from ..drilled import runs
from . import cloudresourcemanager

# Constraints that the wizard asks for, each with its default: lists allow all, switches are off.
# https://docs.cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints, 2026-11
_DRILLED = {"compute.restrictVpcPeering", "compute.requireShieldedVm"}
_LISTS = {"compute.vmExternalIpAccess", "compute.restrictVpcPeering", "gcp.resourceLocations"}


@serves("orgpolicy.projects.policies.getEffectivePolicy")
def effective(call: Call) -> JSON:
    """The policy that results from all above the project."""
    _, project, _, constraint = str(call.params["name"]).split("/")
    record = cloudresourcemanager.find(call.world, project)
    set_ = constraint in _DRILLED and runs("org-policy")
    free = {"allowAll": True} if constraint in _LISTS else {"enforce": False}
    rule = ({"denyAll": True} if constraint in _LISTS else {"enforce": True}) if set_ else free
    name = f"projects/{record.extra['number']}/policies/{constraint}"
    return {"name": name, "spec": {"rules": [rule]}}
