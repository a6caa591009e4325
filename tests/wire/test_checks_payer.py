"""No quota project, nobody who pays: checks say so once, and not that an API is off or a permission missing."""

from __future__ import annotations

import json
from pathlib import Path

from checked import blocks, ground

from grpo_wizard.steps.clients.errors import from_answer

P = "my-project"


def test_credentials_without_a_quota_project_block_once_and_say_what_to_type(tmp_path: Path) -> None:
    with ground(tmp_path / "home", []) as world:
        assert "quota project" not in str(blocks(world.check()))
        world.server.ask("POST", "/_rehearsal/drills/no-quota-project")
        found = blocks(world.check())
        (said,) = [text for text in found.values() if "no quota project" in text]
        assert "gcloud auth application-default set-quota-project" in said and "is not enabled" not in str(
            found
        )
        world.server.ask("DELETE", "/_rehearsal/drills")
        assert "quota project" not in str(blocks(world.check()))


def test_a_project_that_nobody_pays_for_is_no_missing_permission(tmp_path: Path) -> None:
    with ground(tmp_path / "home", []) as world:
        path = f"/cloudbilling/v1/projects/{P}/billingInfo"
        assert world.server.ask("PUT", path, {"billingAccountName": ""})[0] == 200
        status, answer = world.server.ask("GET", f"/compute/v1/projects/{P}/global/networks")
        error = from_answer("compute.googleapis.com", status, json.dumps(answer))
        assert error.kind == "billing" and error.command.startswith("gcloud billing projects link")
        found = blocks(world.check())
        assert any(
            "billing" in text.lower() for text in found.values()
        ) and "permission is missing" not in str(found)
