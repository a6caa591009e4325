"""What Google's answers about a project mean, for the check of the project and for every other request."""

from __future__ import annotations

from grpo_wizard.steps.core.model import CheckFinding


def project_not_found(project: str, identity: str, mode: str) -> CheckFinding:
    """Explain that a project is missing or hidden; Google gives the same response for both."""
    hint = "; a rehearsal has my-project" if mode == "rehearsal" else ""
    return CheckFinding(
        "block",
        f"project {project} was not found",
        f"or {identity} may not see it",
        f"choose another project, or set project.create_project=true{hint}",
    )
