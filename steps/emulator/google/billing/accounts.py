"""Cloud Billing: accounts, a project's billing account, and the services of the public catalog.

Prices are not emulated: no SKU is listed.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, handles
from grpo_wizard.steps.emulator.google.resourcemanager.projects import find_project

ACCOUNT = "billingAccounts/012345-567890-ABCDEF"
_ACCOUNTS = {
    ACCOUNT: {
        "name": ACCOUNT,
        "open": True,
        "displayName": "Rehearsal billing account",
        "masterBillingAccount": "",
        "currencyCode": "USD",
    }
}
# Ids of the public catalog (GET https://cloudbilling.googleapis.com/v1/services): the two services that bill the
# tutorial's deployment.
_SERVICES = {"6F81-5844-456A": "Compute Engine", "CCD8-9BF1-090E": "Kubernetes Engine"}


def _info(call: ApiCall, name: str) -> JSON:
    record = find_project(call.store, name.removesuffix("/billingInfo"))
    account = record.extra.get("billing", "")
    return {
        "name": f"projects/{record.name}/billingInfo",
        "projectId": record.name,
        "billingAccountName": account,
        "billingEnabled": bool(account) and bool(_ACCOUNTS.get(account, {}).get("open")),
    }


@handles("cloudbilling.projects.getBillingInfo")
def get_info(call: ApiCall) -> JSON:
    """Return whether a project has billing, and its account."""
    return _info(call, call.params["name"])


@handles("cloudbilling.projects.updateBillingInfo")
def update_info(call: ApiCall) -> JSON:
    """Link a project to an account; an empty name unlinks it."""
    record = find_project(call.store, call.params["name"])
    account = call.body.get("billingAccountName", "")
    if account and account not in _ACCOUNTS:
        raise ApiError(403, "The caller does not have permission", "PERMISSION_DENIED", "forbidden")
    record.extra["billing"] = account
    return _info(call, call.params["name"])


@handles("cloudbilling.billingAccounts.list")
def list_accounts(call: ApiCall) -> JSON:
    """List the caller's accounts."""
    wanted = call.params.get("filter", "")
    return {
        "billingAccounts": [
            account for account in _ACCOUNTS.values() if "open=false" not in wanted.replace(" ", "")
        ]
    }


@handles("cloudbilling.billingAccounts.get")
def get_account(call: ApiCall) -> JSON:
    """Return one account."""
    if call.params["name"] not in _ACCOUNTS:
        raise ApiError(403, "The caller does not have permission", "PERMISSION_DENIED", "forbidden")
    return _ACCOUNTS[call.params["name"]]


@handles("cloudbilling.billingAccounts.projects.list")
def list_projects(call: ApiCall) -> JSON:
    """List the projects of an account."""
    projects = call.store.all("cloudresourcemanager.googleapis.com", "project")
    return {
        "projectBillingInfo": [
            _info(call, p.key) for p in projects if p.extra.get("billing") == call.params["name"]
        ]
    }


@handles("cloudbilling.services.list")
def list_services(call: ApiCall) -> JSON:
    """List the services of the public catalog."""
    return {
        "services": [
            {
                "name": f"services/{number}",
                "serviceId": number,
                "displayName": title,
                "businessEntityName": "businessEntities/GCP",
            }
            for number, title in _SERVICES.items()
        ]
    }


@handles("cloudbilling.services.skus.list")
def list_skus(call: ApiCall) -> JSON:
    """Return no SKU: the emulator has no current prices."""
    if call.params["parent"].removeprefix("services/") not in _SERVICES:
        raise ApiError(404, f"Service {call.params['parent']} not found.", "NOT_FOUND")
    return {"skus": []}
