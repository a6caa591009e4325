"""No quota project, nobody who pays: checks say so once, and not that an API is off or a permission missing."""

from __future__ import annotations

import json
from pathlib import Path

from check_harness import blocking_texts, check_harness

from grpo_wizard.steps.clients.errors import from_response

P = "my-project"


def test_credentials_without_a_quota_project_block_once_and_say_what_to_type(tmp_path: Path) -> None:
    with check_harness(tmp_path / "home", []) as world:
        assert "quota project" not in str(blocking_texts(world.check()))
        world.server.call("POST", "/_rehearsal/drills/no-quota-project")
        found = blocking_texts(world.check())
        (said,) = [text for text in found.values() if "no quota project" in text]
        assert "gcloud auth application-default set-quota-project" in said and "is not enabled" not in str(
            found
        )
        world.server.call("DELETE", "/_rehearsal/drills")
        assert "quota project" not in str(blocking_texts(world.check()))


def test_a_project_that_nobody_pays_for_is_no_missing_permission(tmp_path: Path) -> None:
    with check_harness(tmp_path / "home", []) as world:
        path = f"/cloudbilling/v1/projects/{P}/billingInfo"
        assert world.server.call("PUT", path, {"billingAccountName": ""})[0] == 200
        status, answer = world.server.call("GET", f"/compute/v1/projects/{P}/global/networks")
        error = from_response("compute.googleapis.com", status, json.dumps(answer))
        assert error.kind == "billing" and error.command.startswith("gcloud billing projects link")
        found = blocking_texts(world.check())
        assert any(
            "billing" in text.lower() for text in found.values()
        ) and "permission is missing" not in str(found)
