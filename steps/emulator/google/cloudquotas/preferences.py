"""Cloud Quotas' quota preferences: recorded, but an increase is never granted.

Google reviews GPU quota manually, so `reconciling` stays true. A preference of at most the current quota is
granted at once.
"""

from __future__ import annotations

import base64

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, Record, handles
from grpo_wizard.steps.emulator.google.cloudquotas.quota_infos import SERVICE, quota_infos
from grpo_wizard.steps.emulator.google.shared.filters import parse_filter
from grpo_wizard.steps.emulator.google.shared.ids import utc_timestamp
from grpo_wizard.steps.emulator.google.shared.lists import simple_page


@handles("cloudquotas.projects.locations.quotaPreferences.list")
def list_(call: ApiCall) -> JSON:
    """List the preferences created here."""
    project = call.params["parent"].split("/")[1]
    test = parse_filter(str(call.params.get("filter") or ""))
    found = [r.body for r in call.store.all(SERVICE, "quota_preference", project=project) if test(r.body)]
    return simple_page(call, "quotaPreferences", found, call.params.get("pageSize") or 100)


@handles("cloudquotas.projects.locations.quotaPreferences.get")
def get(call: ApiCall) -> JSON:
    """Return one preference."""
    record = call.store.get(SERVICE, call.params["name"])
    if record is None:
        raise ApiError(404, f"Resource '{call.params['name']}' was not found", "NOT_FOUND")
    return record.body


@handles("cloudquotas.projects.locations.quotaPreferences.create")
def create(call: ApiCall) -> JSON:
    """Create a preference under the requested id or a generated one."""
    name = call.params.get("quotaPreferenceId") or f"preference-{call.store.next_number()}"
    key = f"{call.params['parent']}/quotaPreferences/{name}"
    if call.store.get(SERVICE, key) is not None:
        raise ApiError(409, f"Resource '{key}' already exists", "ALREADY_EXISTS")
    return _put_preference(call, key, call.body, utc_timestamp(call.store))


@handles("cloudquotas.projects.locations.quotaPreferences.patch")
def patch(call: ApiCall) -> JSON:
    """Update a preference if its etag is current; `allowMissing` creates one."""
    key = call.params["name"]
    old = call.store.get(SERVICE, key)
    if old is None and not call.params.get("allowMissing"):
        raise ApiError(404, f"Resource '{key}' was not found", "NOT_FOUND")
    body = old.body if old else {}
    if old and call.body.get("etag") and call.body["etag"] != body["etag"]:
        raise ApiError(409, "The etag provided does not match the current etag.", "ABORTED")  # inferred
    made = body.get("createTime") or utc_timestamp(call.store)
    return _put_preference(call, key, {**body, **call.body}, made, dry=bool(call.params.get("validateOnly")))


def _put_preference(call: ApiCall, key: str, asked: JSON, made: str, *, dry: bool = False) -> JSON:
    project, _, name = key.split("/")[1], "", key.rpartition("/")[2]
    wanted, granted = (
        int(asked.get("quotaConfig", {}).get("preferredValue") or 0),
        _granted_value(call, asked),
    )
    config = {**asked.get("quotaConfig", {}), "grantedValue": str(min(wanted, granted))}
    body = {
        **asked,
        "name": key,
        "quotaConfig": config,
        "reconciling": wanted > granted,
        "etag": base64.urlsafe_b64encode(f"preference {call.store.next_number()}".encode()).decode(),
        "createTime": made,
        "updateTime": utc_timestamp(call.store),
    }
    if not dry:
        call.store.put(
            Record(SERVICE, "quota_preference", name, project, "global", key, body, kept_by_design=True)
        )
    return body


def _granted_value(call: ApiCall, asked: JSON) -> int:
    """Return a project's quota for a preference. Raises 400 for an unknown one; the texts are inferred."""
    if "preferredValue" not in asked.get("quotaConfig", {}):
        raise ApiError(400, "Required field 'quota_config.preferred_value' not specified", "INVALID_ARGUMENT")
    found = next((info for info in quota_infos(call) if info["quotaId"] == asked.get("quotaId")), None)
    if found is None or asked.get("service") != found["service"]:
        text = f"Quota '{asked.get('quotaId', '')}' of service '{asked.get('service', '')}' does not exist."
        raise ApiError(400, text, "INVALID_ARGUMENT")
    where = asked.get("dimensions", {})
    if set(where) - set(found["dimensions"]):
        text = (
            f"Dimensions {sorted(where)} are not those of quota '{found['quotaId']}': {found['dimensions']}."
        )
        raise ApiError(400, text, "INVALID_ARGUMENT")
    rows = [row for row in found["dimensionsInfos"] if row["dimensions"].items() <= where.items()]
    return max((int(row["details"]["value"]) for row in rows), default=0)
