"""Authentication and RBAC: the emulator's token is cluster-admin, ServiceAccounts have their roles."""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import dataclass
from typing import Any

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds, status
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.api.store import ObjectStore

ADMIN = "rehearsal@rehearsal.invalid"


@dataclass(frozen=True)
class KubeCaller:
    """An authenticated identity."""

    name: str
    groups: tuple[str, ...]
    admin: bool = False


@dataclass(frozen=True)
class AccessRequest:
    """One access: verb on group/resource[/subresource], in a namespace or cluster-wide (""), optionally by name."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def describe(self, caller: KubeCaller) -> str:
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return (
            f'User "{caller.name}" cannot {self.verb} resource "{self.resource}" in API group "{self.group}" '
            f"{where}"
        )


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def issue_token(key: str, namespace: str, account: str, expires: float) -> str:
    """Issue a ServiceAccount token: a JWT signed with the cluster's key (HS256)."""
    head = _encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    claims = _encode(
        json.dumps(
            {
                "sub": f"system:serviceaccount:{namespace}:{account}",
                "exp": int(expires),
                "iss": "https://kubernetes.default.svc.cluster.local",
            }
        ).encode()
    )
    return f"{head}.{claims}.{_sign(key, f'{head}.{claims}')}"


def _sign(key: str, text: str) -> str:
    return _encode(hmac.digest(key.encode(), text.encode(), "sha256"))


def authenticate(header: str, admin_token: str, key: str, now: float, store: ObjectStore) -> KubeCaller:
    """Return the caller of an Authorization header. Raises 401."""
    token = header.removeprefix("Bearer ").strip() if header.startswith("Bearer ") else ""
    if token and hmac.compare_digest(token.encode(), admin_token.encode()):
        return KubeCaller(ADMIN, ("system:authenticated",), admin=True)
    parts = token.split(".")
    if len(parts) != 3 or not hmac.compare_digest(
        _sign(key, f"{parts[0]}.{parts[1]}").encode(), parts[2].encode()
    ):
        raise status.unauthorized()
    claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    _, _, namespace, account = claims["sub"].split(":")
    if claims["exp"] < now or store.find(kinds.SERVICE_ACCOUNT, namespace, account) is None:
        raise status.unauthorized()
    return KubeCaller(
        claims["sub"],
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
    )


def is_allowed(store: ObjectStore, caller: KubeCaller, ask: AccessRequest) -> bool:
    """Evaluate the stored roles and bindings."""
    if caller.admin:
        return True
    rules: list[JSON] = []
    for binding in store.list(kinds.CLUSTER_ROLE_BINDING):
        if _binding_matches(binding, caller, ""):
            rules += _role_rules(store, binding, "")
    for binding in store.list(kinds.ROLE_BINDING, ask.namespace) if ask.namespace else ():
        if _binding_matches(binding, caller, ask.namespace):
            rules += _role_rules(store, binding, ask.namespace)
    return any(_rule_allows(rule, ask) for rule in rules)


def _binding_matches(binding: JSON, caller: KubeCaller, namespace: str) -> bool:
    for subject in binding.get("subjects", ()):
        if subject["kind"] == "ServiceAccount":
            home = subject.get("namespace", namespace)
            if caller.name == f"system:serviceaccount:{home}:{subject['name']}":
                return True
        elif subject["name"] == caller.name or (
            subject["kind"] == "Group" and subject["name"] in caller.groups
        ):
            return True
    return False


def _role_rules(store: ObjectStore, binding: JSON, namespace: str) -> list[JSON]:
    ref = binding["roleRef"]
    kind = kinds.ROLE if ref["kind"] == "Role" else kinds.CLUSTER_ROLE
    role = store.find(kind, namespace, ref["name"])
    return role.get("rules") or [] if role else []


def _rule_allows(rule: JSON, ask: AccessRequest) -> bool:
    def holds(key: str, value: str) -> bool:
        listed: list[Any] = rule.get(key) or []
        return "*" in listed or value in listed

    names = rule.get("resourceNames") or []
    return (
        holds("verbs", ask.verb)
        and holds("apiGroups", ask.group)
        and holds("resources", ask.resource)
        and (not names or ask.name in names)
    )


def require_access(store: ObjectStore, caller: KubeCaller, kind: Kind, ask: AccessRequest) -> None:
    """Raise 403, in Kubernetes' own text, if the caller lacks access."""
    if not is_allowed(store, caller, ask):
        raise status.forbidden(kind, ask.name, ask.describe(caller))
