"""IAM policies: versions, etags, and the permissions that a role grants its members."""

from __future__ import annotations

import base64
import fnmatch
import re

from grpo_wizard.steps.emulator.context import JSON, ApiError

# Role -> permission patterns, as exact as the wizard's checks need. Source: https://docs.cloud.google.com/iam/docs/roles-permissions,
# 2026-11.
_ROLES: dict[str, tuple[str, ...]] = {
    "roles/owner": ("*",),
    "roles/editor": (
        "compute.*",
        "container.*",
        "lustre.*",
        "servicenetworking.*",
        "serviceusage.*",
        "cloudquotas.*",
        "resourcemanager.projects.get",
        "storage.*",
        "iam.serviceAccounts.actAs",
        "iam.serviceAccounts.get",
        "iam.serviceAccounts.list",
    ),
    "roles/viewer": ("*.get", "*.list"),
    "roles/compute.admin": (
        "compute.*",
        "resourcemanager.projects.get",
        "serviceusage.quotas.get",
        "serviceusage.services.get",
    ),
    "roles/compute.networkAdmin": (
        "compute.networks.*",
        "compute.subnetworks.*",
        "compute.addresses.*",
        "compute.globalAddresses.*",
        "compute.routes.*",
        "compute.firewalls.get",
        "compute.firewalls.list",
        "compute.networkProfiles.*",
        "compute.regions.*",
        "compute.zones.*",
        "servicenetworking.*",
        "compute.globalOperations.*",
        "compute.regionOperations.*",
        "resourcemanager.projects.get",
    ),
    "roles/compute.securityAdmin": (
        "compute.firewalls.*",
        "compute.networks.updatePolicy",
        "compute.networks.get",
        "compute.networks.list",
    ),
    "roles/compute.viewer": ("compute.*.get", "compute.*.list", "resourcemanager.projects.get"),
    "roles/container.admin": ("container.*", "resourcemanager.projects.get"),
    "roles/lustre.admin": ("lustre.*", "resourcemanager.projects.get"),
    "roles/servicenetworking.networksAdmin": ("servicenetworking.*",),
    "roles/serviceusage.serviceUsageAdmin": ("serviceusage.*",),
    "roles/serviceusage.serviceUsageConsumer": (
        "serviceusage.services.get",
        "serviceusage.services.list",
        "serviceusage.services.use",
        "serviceusage.quotas.get",
    ),
    "roles/cloudquotas.viewer": ("cloudquotas.quotas.get",),
    "roles/cloudquotas.admin": ("cloudquotas.*",),
    "roles/iam.serviceAccountUser": (
        "iam.serviceAccounts.actAs",
        "iam.serviceAccounts.get",
        "iam.serviceAccounts.list",
    ),
    "roles/iam.serviceAccountAdmin": ("iam.serviceAccounts.*",),
    "roles/resourcemanager.projectIamAdmin": (
        "resourcemanager.projects.get",
        "resourcemanager.projects.*IamPolicy",
    ),
    "roles/storage.admin": ("storage.*",),
    "roles/billing.projectManager": ("resourcemanager.projects.*BillingAssignment",),
}
# Prefixes of permissions that exist on a project, for the APIs here (IAM permissions reference, 2026-11). A permission
# of another service is treated as a typo.
_SERVICES = {
    *(
        "artifactregistry",
        "autoscaling",
        "bigquery",
        "billing",
        "cloudbilling",
        "cloudquotas",
        "compute",
        "container",
    ),
    *(
        "dns",
        "file",
        "gkebackup",
        "iam",
        "logging",
        "lustre",
        "monitoring",
        "networkconnectivity",
        "networkmanagement",
    ),
    *(
        "networksecurity",
        "orgpolicy",
        "pubsub",
        "resourcemanager",
        "secretmanager",
        "servicenetworking",
        "serviceusage",
    ),
    *("storage", "tpu"),
}
# Permissions of an organization or folder, not of a project: google-cloud-java issue 722.
_NON_PROJECT_PERMISSIONS = {"resourcemanager.projects.create", "resourcemanager.projects.list"}
_PERMISSION = re.compile(r"[a-z][a-z0-9]*(\.[a-zA-Z0-9]+){1,3}")
_MEMBER = re.compile(
    r"(user|serviceAccount|group|domain|principal|principalSet|deleted:\w+|project(Owner|Editor|Viewer)):.+"
    r"|allUsers|allAuthenticatedUsers"
)


class IamPolicies:
    """Functions on policies in the API's format."""

    @staticmethod
    def initial(owner: str) -> JSON:
        """Return a new project's policy: its creator is the owner."""
        return {"version": 1, "etag": _etag(0), "bindings": [{"role": "roles/owner", "members": [owner]}]}

    @staticmethod
    def role_members(policy: JSON) -> set[tuple[str, str]]:
        """Yield (role, member) of every binding."""
        return {(b["role"], m) for b in policy.get("bindings", []) for m in b.get("members", [])}

    @staticmethod
    def for_version(policy: JSON, version: int) -> JSON:
        """Return the policy for a reader of `version`.

        Below 3, conditional bindings have no condition and a marked role.
        """
        if version not in (0, 1, 3):
            raise ApiError(
                400, f"Requested policy version {version} is not valid.", "INVALID_ARGUMENT", "badRequest"
            )
        conditional = any("condition" in b for b in policy["bindings"])
        if conditional and version < 3:
            marked = [
                {"role": f"{b['role']}_withcond_0000", "members": b["members"]} if "condition" in b else b
                for b in policy["bindings"]
            ]
            return {**policy, "version": 1, "bindings": marked}
        return {**policy, "version": 3 if conditional else 1}

    @staticmethod
    def replace(old: JSON, new: JSON, serial: int) -> JSON:
        """Return the policy that setIamPolicy stores for `new`.

        Raises 409 ABORTED if it was read before a concurrent change.
        """
        if new.get("etag") and _etag_bytes(new["etag"]) != _etag_bytes(old["etag"]):
            raise ApiError(
                409,
                "There were concurrent policy changes. Please retry the whole read-modify-write with "
                "exponential backoff. The request's "
                "ETag did not match the current policy's ETag.",
                "ABORTED",
                "aborted",
            )
        bindings = [b for b in new.get("bindings", []) if b.get("members")]
        for binding in bindings:
            _check(binding, new.get("version", 1))
        if not any(b["role"] == "roles/owner" for b in bindings):
            raise ApiError(
                400, "Project must have at least one owner.", "INVALID_ARGUMENT", "SOLO_MUST_INVITE_OWNERS"
            )
        return {"version": 1, "etag": _etag(serial), "bindings": bindings}

    @staticmethod
    def check_permissions(wanted: list[str]) -> None:
        """Raise 400 for a permission that does not exist on projects.

        Google rejects those; the text is inferred.
        """
        for permission in wanted:
            if "*" in permission:
                raise ApiError(
                    400, "Permissions must not contain wildcards.", "INVALID_ARGUMENT", "badRequest"
                )
            known = _PERMISSION.fullmatch(permission) and permission.split(".")[0] in _SERVICES
            if (
                not known
                or permission in _NON_PROJECT_PERMISSIONS
                or permission.split(".")[1] in ("folders", "organizations")
            ):
                text = f"Permission {permission} is not valid for this resource."
                raise ApiError(400, text, "INVALID_ARGUMENT", "badRequest")

    @staticmethod
    def granted(policy: JSON, member: str, wanted: list[str]) -> list[str]:
        """Return those of `wanted` that a member's roles grant."""
        patterns = [
            p for role, who in IamPolicies.role_members(policy) if who == member for p in _ROLES.get(role, ())
        ]
        return [
            permission for permission in wanted if any(fnmatch.fnmatchcase(permission, p) for p in patterns)
        ]


def _check(binding: JSON, version: int) -> None:
    if not re.fullmatch(
        r"(roles|projects/[^/]+/roles|organizations/[^/]+/roles)/[\w.]+", binding.get("role", "")
    ):
        raise ApiError(
            400,
            f"Role {binding.get('role', '')} is not supported for this resource.",
            "INVALID_ARGUMENT",
            "badRequest",
        )
    if "condition" in binding and version < 3:
        raise ApiError(
            400, "The policy holds conditions; its version must be 3.", "INVALID_ARGUMENT", "badRequest"
        )
    for member in binding["members"]:
        if not _MEMBER.fullmatch(member):
            raise ApiError(
                400,
                f"Invalid member: {member}. Please set the prefix to one of user, serviceAccount, group, "
                "domain, principal.",
                "INVALID_ARGUMENT",
                "badRequest",
            )


def _etag(serial: int) -> str:
    """Return eight bytes in base64 that survive gcloud's decoding and encoding, like Google's."""
    return base64.b64encode(b"\x07\x06" + serial.to_bytes(6, "big")).decode()


def _etag_bytes(etag: str) -> bytes:
    try:
        return base64.b64decode(
            etag + "=" * (-len(etag) % 4), altchars=b"-_" if set("-_") & set(etag) else None
        )
    except ValueError:
        raise ApiError(
            400,
            "Invalid value at 'policy.etag' (TYPE_BYTES), Base64 decoding failed",
            "INVALID_ARGUMENT",
            "badRequest",
        ) from None
