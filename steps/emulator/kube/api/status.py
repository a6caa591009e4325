"""Error responses as Status bodies, in the API server's own texts."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api.kinds import Kind


class StatusError(Exception):
    """An error response.

    `code` is the HTTP status, `reason` the machine-readable one, `details` metav1.StatusDetails.
    """

    def __init__(self, code: int, reason: str, message: str, details: JSON | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details or {}

    def body(self) -> JSON:
        """Return the metav1.Status."""
        body: JSON = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            body["details"] = self.details
        return body


def _details(kind: Kind, name: str, **more: object) -> JSON:
    details: JSON = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    return {**details, "kind": kind.plural, **more}


def not_found(kind: Kind, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{kind.qualified} "{name}" not found', _details(kind, name))


def already_exists(kind: Kind, name: str) -> StatusError:
    return StatusError(
        409, "AlreadyExists", f'{kind.qualified} "{name}" already exists', _details(kind, name)
    )


def conflict(kind: Kind, name: str, why: str = "") -> StatusError:
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try again"
    )
    return StatusError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}',
        _details(kind, name),
    )


def apply_conflict(found: list[tuple[str, str]]) -> StatusError:
    """Return the conflict of a server-side apply with fields of other managers: pairs of manager and path."""
    managers = sorted({manager for manager, _ in found})
    paths = "\n".join(f"- {path}" for _, path in found)
    noun = "conflict" if len(found) == 1 else "conflicts"
    with_whom = ", ".join(f'"{m}"' for m in managers)
    tail = f": {found[0][1]}" if len(found) == 1 else f":\n{paths}"
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{m}"', "field": p} for m, p in found
    ]
    return StatusError(
        409,
        "Conflict",
        f"Apply failed with {len(found)} {noun}: {noun} with {with_whom}{tail}",
        {"causes": causes},
    )


def invalid(kind: Kind, name: str, causes: list[tuple[str, str, str]]) -> StatusError:
    """Return 422. `causes` are (field, reason such as FieldValueInvalid, message)."""
    lines = [f"{field}: {message}" for field, _, message in causes]
    text = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    details = {
        **_details(kind, name),
        "kind": kind.kind,
        "causes": [{"reason": r, "message": m, "field": f} for f, r, m in causes],
    }
    title = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return StatusError(422, "Invalid", f'{title} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def cannot_decode(kind: Kind, why: str) -> StatusError:
    return bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')


def resource_expired(asked: int, oldest: int) -> StatusError:
    return StatusError(410, "Expired", f"too old resource version: {asked} ({oldest})")


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(kind: Kind, name: str, why: str) -> StatusError:
    what = f'{kind.qualified} "{name}"' if name else kind.qualified
    return StatusError(403, "Forbidden", f"{what} is forbidden: {why}", _details(kind, name))


def method_not_allowed() -> StatusError:
    return StatusError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def unsupported_media(sent: str, allowed: list[str]) -> StatusError:
    return StatusError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted "
        f"media types include: {', '.join(allowed)}" + (f" (got {sent})" if sent else ""),
    )


def success(kind: Kind, name: str, uid: str) -> JSON:
    """Return the Status of a finished DELETE."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": _details(kind, name, uid=uid),
    }
