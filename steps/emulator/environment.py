"""The environment variables with which gcloud, kubectl and the wizard use the emulator."""

from __future__ import annotations

import shlex
from pathlib import Path

from grpo_wizard.steps.emulator.google.initial_state import PROJECT


def client_environment(base_url: str, root: Path, token: str, ca: Path) -> dict[str, str]:
    """Return the variables by name.

    gcloud gets its own configuration folder and kubectl its own kubeconfig; the user's are not touched.
    """
    config = root / "gcloud"
    config.mkdir(mode=0o700, exist_ok=True)
    return {
        "CLOUDSDK_CONFIG": str(config),
        "CLOUDSDK_CORE_PROJECT": PROJECT,
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": str(ca),
        # Python's requests, which gcloud uses, prefers this variable to gcloud's property (measured with gcloud 528).
        "REQUESTS_CA_BUNDLE": str(ca),
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "CLOUDSDK_SURVEY_DISABLE_PROMPTS": "true",
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(root / "token"),
        "HTTPS_PROXY": base_url,
        "NO_PROXY": "127.0.0.1,localhost",
        "KUBECONFIG": str(root / "kubeconfig"),
        "HF_ENDPOINT": f"{base_url}/huggingface/~{token}",
        "WANDB_BASE_URL": f"{base_url}/wandb/~{token}",
        "GRPO_WIZARD_REHEARSAL_URL": base_url,
        "GRPO_WIZARD_REHEARSAL_TOKEN": token,
    }


def export_script(env: dict[str, str]) -> str:
    """Return the variables as shell `export` lines."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())
