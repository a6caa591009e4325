"""What the wizard sends is what the tutorial's gcloud sends, but for the table of deliberate differences."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator
from gcloud_requests import differing_paths, normalized_request, recorded_requests, request_key

from grpo_wizard.steps.core import tutorial_differences
from grpo_wizard.steps.emulator import process

HERE = Path(__file__).parent
TUTORIAL, EXACT = HERE.parents[1] / "assets" / "answers-tutorial.toml", HERE / "tutorial_exact.toml"
# Compared in tests of their own: the wizard speaks v3 where gcloud speaks v1, and enables APIs one by one.
APART = {"projects-create", "projects-add-iam-policy-binding", "services-enable"}

# Where each difference shows in the create requests: command and path, `*` for any text.
SHOWS = {
    "one_cpu_node": ("clusters-create cluster.locations.*",),
    "gke_version": ("clusters-create cluster.initialClusterVersion",),
    "mtu": ("networks-create-auto mtu",),
    "narrow_firewall": ("firewall-rules-create sourceRanges.*",),
    "lustre_port": (
        "clusters-create cluster.addonsConfig.lustreCsiDriverConfig.enableLegacyLustrePort",
        "lustre-create gkeSupportEnabled",
    ),
    "ownership_marks": (
        "networks-create-* description",
        "subnets-create-* description",
        "firewall-rules-create description",
        "addresses-create description",
        "addresses-create labels.grpo-wizard",
        "clusters-create cluster.resourceLabels.grpo-wizard",
        "clusters-create cluster.nodePools.default-pool.config.resourceLabels.grpo-wizard",
        "node-pools-create-gpu nodePool.config.resourceLabels.grpo-wizard",
        "lustre-create labels.grpo-wizard",
    ),
}


def wizard(server: EmulatorServer, *words: str) -> None:
    """One command of the wizard, in a process of its own, against the server."""
    command = [sys.executable, "-m", "grpo_wizard", *words, "--rehearse", "--home", str(server.home)]
    done = subprocess.run(command, capture_output=True, text=True, env=server.env, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module", params=["exact", "better"])
def sent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """(which, create requests by service, path and name) of a deployment up to Lustre."""
    server = start_emulator(tmp_path_factory.mktemp(request.param) / "home", ray="none")
    try:
        wizard(server, "init", "--answers", str(TUTORIAL))
        if request.param == "exact":
            wizard(server, "init", "--answers", str(EXACT))
        wizard(server, "apply", "--yes", "--until", "lustre")
        posts = [r for r in server.recorded_requests() if r["method"] == "POST" and r["status"] == 200]
        yield request.param, {request_key(r): r for r in posts if r["service"].endswith(".googleapis.com")}
    finally:
        process.stop(server.home)


def test_every_create_request_is_gclouds_but_for_what_the_table_names(sent: Any) -> None:
    which, ours = sent
    found: set[str] = set()
    compared = 0
    for command, theirs in recorded_requests().items():
        if command in APART:
            continue
        assert request_key(theirs) in ours, f"{command} was not sent"
        compared += 1
        found |= {
            f"{command} {path}"
            for path in differing_paths(
                normalized_request(theirs), normalized_request(ours[request_key(theirs)])
            )
        }
    assert compared >= 18
    found = {place.replace(" body.", " ", 1) for place in found}
    if which == "exact":
        assert found == set()
    else:
        patterns = [pattern for each in SHOWS.values() for pattern in each]
        assert {place for place in found if not any(fnmatchcase(place, p) for p in patterns)} == set()
        assert {p for p in patterns if not any(fnmatchcase(place, p) for place in found)} == set()


def test_nothing_is_made_that_the_tutorial_does_not_make(sent: Any) -> None:
    which, ours = sent
    known = {request_key(theirs) for theirs in recorded_requests().values()}
    more = {
        name or path
        for service, path, name in set(ours) - known
        if ":enable" not in path and not path.endswith(("Policy", "Permissions")) and service != "kubernetes"
    }
    assert more == (set() if which == "exact" else {"nemo-lustre-lnet"})  # the row lustre_firewall


def test_the_apis_that_the_tutorial_enables_are_enabled_too(sent: Any) -> None:
    _, ours = sent
    asked = {path.rpartition("/")[2].removesuffix(":enable") for _, path, _ in ours if ":enable" in path}
    on_already = {"storage.googleapis.com"}  # in every new project
    assert set(recorded_requests()["services-enable"]["body"]["serviceIds"]) <= asked | on_already


def test_a_new_project_and_a_role_are_asked_for_as_gcloud_does(rehearsal: EmulatorServer) -> None:
    project, member = "another-project", "user:user@example.com"
    values = {
        "project.project_id": project,
        "project.create_project": "true",
        "project.billing_account": "012345-567890-ABCDEF",
        "project.grant_roles": "true",
        "project.member": member,
        "project.ownership_marks": "false",
    }
    sets = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    # Before there is a project to enable them in, these are asked of the caller's own.
    rehearsal.enable("cloudresourcemanager.googleapis.com", "cloudbilling.googleapis.com")
    wizard(rehearsal, "init", "--answers", str(TUTORIAL), *sets)
    wizard(rehearsal, "apply", "--yes", "--until", "project", "--skip-checks")
    posts = {
        r["path"]: r for r in rehearsal.recorded_requests() if r["method"] == "POST" and r["status"] == 200
    }
    made = dict(posts["/v3/projects"]["body"])
    made["name"] = made.pop("displayName")  # v3's word for v1's name
    assert made == {"name": project, "projectId": project}
    theirs = recorded_requests()["projects-add-iam-policy-binding"]["body"]["policy"]
    ours = [
        r["body"]["policy"]
        for r in rehearsal.recorded_requests()
        if r["path"].endswith(":setIamPolicy") and r["status"] == 200
    ]
    assert all(policy["version"] == theirs["version"] and policy["etag"] for policy in ours)
    assert any(theirs["bindings"][0] in policy["bindings"] for policy in ours)


def test_tutorial_exact_switches_off_all_that_can_be_and_nothing_else() -> None:
    assert tomllib.loads(EXACT.read_text("utf-8")) == tutorial_differences.opt_out_answers()
