"""The API server, used through the real Python client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kube_test_server import TOKEN, KubeTestServer, kube_test_server, wait_until
from kubernetes import client, dynamic, watch
from kubernetes.client.exceptions import ApiException
from tutorial_kube_objects import ray_objects

from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.kubernetes.api import ClusterEndpoint, KubeClient
from grpo_wizard.steps.emulator.server.tls import CertificateAuthority


@pytest.fixture(scope="module")
def it() -> Iterator[KubeTestServer]:
    with kube_test_server() as world:
        yield world


@pytest.fixture
def core(it: KubeTestServer) -> Any:
    return client.CoreV1Api(it.client())


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def _refused(error: pytest.ExceptionInfo[ApiException], code: int, text: str) -> None:
    assert error.value.status == code
    assert text in str(error.value.body)


def test_version_discovery_and_the_dynamic_client(it: KubeTestServer) -> None:
    api = it.client()
    assert client.VersionApi(api).get_code().git_version == "v1.33.5-gke.1162000"
    kind = dynamic.DynamicClient(api).resources.get(api_version="ray.io/v1", kind="RayCluster")
    assert kind.namespaced and kind.get(namespace="default").items == []


def test_objects_get_uid_version_and_collide_by_name(core: Any) -> None:
    made = core.create_namespaced_config_map("default", _map("one", a="1"))
    assert made.metadata.uid and made.metadata.resource_version and made.metadata.creation_timestamp
    with pytest.raises(ApiException) as error:
        core.create_namespaced_config_map("default", _map("one"))
    _refused(error, 409, 'configmaps \\"one\\" already exists')
    with pytest.raises(ApiException) as error:
        core.read_namespaced_config_map("two", "default")
    _refused(error, 404, 'configmaps \\"two\\" not found')


def test_a_put_with_an_old_version_is_a_conflict(core: Any) -> None:
    old = core.create_namespaced_config_map("default", _map("put", a="1"))
    core.patch_namespaced_config_map("put", "default", {"data": {"a": "2"}})
    old.data = {"a": "3"}
    with pytest.raises(ApiException) as error:
        core.replace_namespaced_config_map("put", "default", old)
    _refused(error, 409, "the object has been modified")


def test_dry_run_changes_nothing(core: Any) -> None:
    core.create_namespaced_config_map("default", _map("dry"), dry_run="All")
    with pytest.raises(ApiException):
        core.read_namespaced_config_map("dry", "default")


PODS = "/api/v1/namespaces/default/pods"
RAYS = "/apis/ray.io/v1/namespaces/default/rayclusters"


def _pod(**container: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "pod-x"},
        "spec": {"containers": [{"name": "a", "image": "nginx", **container}]},
    }


def test_unknown_fields_are_refused_when_strict_and_dropped_with_a_warning_else(it: KubeTestServer) -> None:
    code, body, _ = it.raw("POST", f"{PODS}?fieldValidation=Strict", _pod(imge="x"))
    assert code == 400 and 'strict decoding error: unknown field "spec.containers[0].imge"' in body["message"]
    code, body, headers = it.raw("POST", f"{PODS}?dryRun=All", _pod(imge="x"))
    assert code == 201 and "imge" not in str(body) and "unknown field" in headers["Warning"]
    cluster = ray_objects()[-1]
    cluster["spec"]["workerGroupSpecs"][0]["replica"] = 1
    code, body, _ = it.raw("POST", f"{RAYS}?fieldValidation=Strict", cluster)
    assert code == 400 and 'unknown field "spec.workerGroupSpecs[0].replica"' in body["message"]


def test_wrong_types_and_broken_rules_name_the_field(it: KubeTestServer) -> None:
    cluster = ray_objects()[-1]
    cluster["spec"]["workerGroupSpecs"][0]["replicas"] = "two"
    for path, sent, code, text in (
        (RAYS, cluster, 422, "spec.workerGroupSpecs[0].replicas in body must be of type integer"),
        (
            PODS,
            _pod(image=7),
            400,
            "cannot unmarshal number into Go struct field Pod.spec.containers[0].image",
        ),
        (
            PODS,
            _pod(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            422,
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            PODS,
            _pod(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
            422,
            "must be less than or equal to cpu limit of 1",
        ),
        ("/api/v1/namespaces/default/configmaps", _map("Not_A_Name"), 422, "RFC 1123 subdomain"),
        ("/api/v1/namespaces/nowhere/configmaps", _map("x"), 404, 'namespaces "nowhere" not found'),
    ):
        got, body, _ = it.raw("POST", path, sent)
        assert got == code and text in body["message"], body


def test_lists_select_by_label_and_field_and_come_in_pages(core: Any) -> None:
    for i in range(5):
        core.create_namespaced_config_map(
            "kube-public",
            {**_map(f"m{i}"), "metadata": {"name": f"m{i}", "labels": {"n": str(i % 2), "all": "yes"}}},
        )

    def names(**how: Any) -> list[str]:
        return [m.metadata.name for m in core.list_namespaced_config_map("kube-public", **how).items]

    assert names(label_selector="n=1") == ["m1", "m3"]
    assert names(label_selector="all,n notin (1)") == ["m0", "m2", "m4"]
    assert names(field_selector="metadata.name=m3") == ["m3"]
    page = core.list_namespaced_config_map("kube-public", label_selector="all", limit=2)
    rest = core.list_namespaced_config_map(
        "kube-public", label_selector="all", _continue=page.metadata._continue
    )
    assert [len(page.items), len(rest.items)] == [2, 3]


def test_a_watch_shows_changes_from_its_version_on_and_410_for_a_lost_one(
    it: KubeTestServer, core: Any
) -> None:
    start = core.list_namespaced_config_map("default").metadata.resource_version
    core.create_namespaced_config_map(
        "default", {**_map("seen"), "metadata": {"name": "seen", "labels": {"w": "1"}}}
    )
    core.patch_namespaced_config_map("seen", "default", {"metadata": {"labels": {"w": "2"}}})
    core.delete_namespaced_config_map("seen", "default")
    found = []
    for event in watch.Watch().stream(
        core.list_namespaced_config_map,
        "default",
        resource_version=start,
        label_selector="w=1",
        timeout_seconds=1,
    ):
        found.append(event["type"])
    assert found == ["ADDED", "DELETED"], "leaving the selector is a deletion to its watcher"
    with pytest.raises(ApiException) as error:
        next(
            iter(
                watch.Watch().stream(
                    core.list_namespaced_config_map, "default", resource_version="5", timeout_seconds=1
                )
            )
        )
    assert error.value.status == 410


def test_patches_of_all_four_kinds(it: KubeTestServer, core: Any) -> None:
    core.create_namespaced_service(
        "default",
        {
            "metadata": {"name": "svc"},
            "spec": {"selector": {"a": "b"}, "ports": [{"name": "one", "port": 1}]},
        },
    )

    def patch(kind: str, body: Any, query: str = "") -> Any:
        path = f"/api/v1/namespaces/default/services/svc{query}"
        code, answer, _ = it.raw("PATCH", path, body, f"application/{kind}")
        assert code == 200, answer
        return answer

    def ports(answer: Any) -> set[int]:
        return {p["port"] for p in answer["spec"]["ports"]}

    assert ports(patch("strategic-merge-patch+json", {"spec": {"ports": [{"port": 2, "name": "two"}]}})) == {
        1,
        2,
    }
    drop = {"spec": {"ports": [{"port": 1, "$patch": "delete"}]}}
    assert ports(patch("strategic-merge-patch+json", drop)) == {2}
    assert ports(patch("merge-patch+json", {"spec": {"ports": [{"port": 3, "name": "three"}]}})) == {3}
    assert ports(patch("json-patch+json", [{"op": "replace", "path": "/spec/ports/0/port", "value": 4}])) == {
        4
    }
    applied = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc", "labels": {"x": "y"}}}
    assert patch("apply-patch+yaml", applied, "?fieldManager=tests")["metadata"]["labels"] == {"x": "y"}


def test_server_side_apply_names_the_manager_it_meets_and_takes_back_what_it_leaves_out(
    it: KubeTestServer,
) -> None:
    maps = dynamic.DynamicClient(it.client()).resources.get(api_version="v1", kind="ConfigMap")

    def apply(manager: str, data: dict[str, str], **how: Any) -> Any:
        return maps.server_side_apply(
            body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa"}, "data": data},
            namespace="default",
            field_manager=manager,
            **how,
        )

    apply("one", {"a": "1", "b": "1"})
    with pytest.raises(dynamic.exceptions.ConflictError) as error:
        apply("two", {"a": "2"})
    assert 'conflict with \\"one\\": .data.a' in str(error.value)
    apply("two", {"a": "2"}, force_conflicts=True)
    assert apply("one", {"b": "1"}).data.to_dict() == {"a": "2", "b": "1"}
    assert apply("one", {}).data.to_dict() == {"a": "2"}


def test_finalizers_hold_an_object_and_owners_take_theirs_along(core: Any) -> None:
    owner = core.create_namespaced_config_map(
        "default", {"metadata": {"name": "owner", "finalizers": ["a.b/c"]}}
    )
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    core.create_namespaced_config_map(
        "default", {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    )
    core.delete_namespaced_config_map("owner", "default")
    assert core.read_namespaced_config_map("owner", "default").metadata.deletion_timestamp
    core.patch_namespaced_config_map("owner", "default", {"metadata": {"finalizers": None}})

    def gone() -> bool:
        return not {"owner", "owned"} & {
            m.metadata.name for m in core.list_namespaced_config_map("default").items
        }

    wait_until(gone)


def test_orphans_stay(core: Any) -> None:
    owner = core.create_namespaced_config_map("default", {"metadata": {"name": "mother"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mother", "uid": owner.metadata.uid}
    core.create_namespaced_config_map(
        "default", {"metadata": {"name": "child", "ownerReferences": [reference]}}
    )
    core.delete_namespaced_config_map("mother", "default", propagation_policy="Orphan")
    wait_until(lambda: not core.read_namespaced_config_map("child", "default").metadata.owner_references)


def test_a_namespace_goes_with_what_is_in_it(core: Any) -> None:
    core.create_namespace({"metadata": {"name": "short"}})
    wait_until(lambda: core.list_namespaced_service_account("short").items)
    core.create_namespaced_config_map("short", _map("x"))
    core.delete_namespace("short")
    wait_until(lambda: "short" not in {n.metadata.name for n in core.list_namespace().items})
    assert not core.list_config_map_for_all_namespaces(field_selector="metadata.namespace=short").items


def test_a_service_account_may_do_what_its_role_says_and_no_more(it: KubeTestServer, core: Any) -> None:
    rbac = client.RbacAuthorizationV1Api(it.client())
    custom = client.CustomObjectsApi(it.client())
    for name in ("mine", "other"):
        body = ray_objects(0)[-1]
        body["metadata"]["name"] = name
        custom.create_namespaced_custom_object("ray.io", "v1", "default", "rayclusters", body)
    core.create_namespaced_service_account("default", {"metadata": {"name": "watcher"}})
    rule = {
        "apiGroups": ["ray.io"],
        "resources": ["rayclusters"],
        "verbs": ["get", "patch"],
        "resourceNames": ["mine"],
    }
    rbac.create_namespaced_role("default", {"metadata": {"name": "watcher"}, "rules": [rule]})
    rbac.create_namespaced_role_binding(
        "default",
        {
            "metadata": {"name": "watcher"},
            "roleRef": {"kind": "Role", "name": "watcher", "apiGroup": rbac_group()},
            "subjects": [{"kind": "ServiceAccount", "name": "watcher", "namespace": "default"}],
        },
    )
    _, answer, _ = it.raw("POST", "/api/v1/namespaces/default/serviceaccounts/watcher/token", {"spec": {}})
    token = answer["status"]["token"]
    theirs = client.CustomObjectsApi(it.client(token))
    where = ("ray.io", "v1", "default", "rayclusters")
    theirs.patch_namespaced_custom_object(
        *where, "mine", {"metadata": {"annotations": {"grpo-wizard/released": "x"}}}
    )
    attempts: tuple[Callable[[], Any], ...] = (
        lambda: theirs.get_namespaced_custom_object(*where, "other"),
        lambda: theirs.list_namespaced_custom_object(*where),
        lambda: theirs.delete_namespaced_custom_object(*where, "mine"),
    )
    for refused in attempts:
        with pytest.raises(ApiException) as error:
            refused()
        assert error.value.status == 403
    assert 'User \\"system:serviceaccount:default:watcher\\" cannot delete resource' in str(error.value.body)
    with pytest.raises(ApiException) as error:
        client.CoreV1Api(it.client("nobody")).list_node()
    assert error.value.status == 401
    for name in ("mine", "other"):
        custom.delete_namespaced_custom_object(*where, name)


def rbac_group() -> str:
    return "rbac.authorization.k8s.io"


def test_paths_that_nobody_rehearsed_are_said_so(it: KubeTestServer) -> None:
    code, body, _ = it.raw("GET", "/metrics")
    assert code == 501 and "/metrics" in body["message"]
    assert it.raw("GET", "/apis/nobody.io/v1/things")[0] == 404


def _product_client(it: KubeTestServer, ca_pem: bytes | None = None) -> KubeClient:
    cloud = CloudContext("rehearsal", None, "tests", kube_token=TOKEN)
    return KubeClient(cloud, ClusterEndpoint(it.url, ca_pem or it.cluster.ca_path.read_bytes()))


def test_product_client_trusts_the_cluster_authority_and_no_other(it: KubeTestServer, tmp_path: Path) -> None:
    version = _product_client(it).get("/version")
    assert version is not None and version["gitVersion"].startswith("v1.33")
    other = CertificateAuthority(tmp_path).ca_file.read_bytes()
    with pytest.raises(CloudError) as refused:
        _product_client(it, other).get("/version")
    assert "CERTIFICATE_VERIFY_FAILED" in refused.value.detail


_KILLED_WHILE_CONNECTED = """
import os, signal, sys
from pathlib import Path
from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.kubernetes.api import ClusterEndpoint, KubeClient
url, ca, token = sys.argv[1:]
cloud = CloudContext("rehearsal", None, "tests", kube_token=token)
kube = KubeClient(cloud, ClusterEndpoint(url, Path(ca).read_bytes()))
assert kube.get("/version")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_product_client_leaves_no_temporary_file(it: KubeTestServer, tmp_path: Path) -> None:
    (temporary := tmp_path / "tmp").mkdir()
    words = [sys.executable, "-c", _KILLED_WHILE_CONNECTED, it.url, str(it.cluster.ca_path), TOKEN]
    killed = subprocess.run(words, env={**os.environ, "TMPDIR": str(temporary)}, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert list(temporary.iterdir()) == []
