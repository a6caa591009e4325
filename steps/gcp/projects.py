"""What Google's responses about a project mean, for its check and for every other request."""

from __future__ import annotations

from grpo_wizard.steps.core.model import CheckFinding


def project_not_found(project: str, identity: str, mode: str) -> CheckFinding:
    """Explain that a project is missing or hidden; Google gives the same response for both."""
    hint = " (the rehearsal project is my-project)" if mode == "rehearsal" else ""
    return CheckFinding(
        "block",
        detail=f"Project {project} was not found: it does not exist, or {identity} has no access to it.",
        fix=f"Choose another project{hint}, or set project.create_project=true.",
    )
