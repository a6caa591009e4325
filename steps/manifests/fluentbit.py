"""The optional sidecar that ships Ray's logs to Cloud Logging. Off by default: logs may contain sensitive data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


# Pinned, because :latest changes without notice.
_IMAGE = "fluent/fluent-bit:3.2.10"
_LOG_DIR = "/tmp/ray/session_latest/logs"

_CONFIG = f"""[INPUT]
    Name              tail
    Path              {_LOG_DIR}/worker-*
    Tag               ray-worker
[INPUT]
    Name              tail
    Path              {_LOG_DIR}/raylet*
    Tag               raylet
[INPUT]
    Name              tail
    Path              {_LOG_DIR}/*
    Exclude_Path      {_LOG_DIR}/debug_state.txt,{_LOG_DIR}/raylet*,{_LOG_DIR}/worker-*,{_LOG_DIR}/runtime_env*
    Tag               ray-misc
[OUTPUT]
    Name              stackdriver
    Match             *
    resource          gce_instance
    labels_key        labels
"""


def fluentbit_name(answers: Answers) -> str:
    return f"{answers.raycluster.raycluster_name}-fluentbit-config"


def fluentbit_config(answers: Answers) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": fluentbit_name(answers), "namespace": answers.raycluster.namespace},
        "data": {"fluent-bit.conf": _CONFIG},
    }


def fluentbit_container(answers: Answers, group: dict[str, object]) -> list[dict[str, object]]:
    """The sidecar, if it is enabled. `group` is the pod's RAY_GROUP variable."""
    if not answers.raycluster.fluentbit:
        return []
    mounts = [
        {"name": "fluentbit-config-volume", "mountPath": "/fluent-bit/etc/"},
        {"name": "log-volume", "mountPath": "/tmp/ray"},
    ]
    return [{"name": "fluent-bit", "image": _IMAGE, "env": [group], "volumeMounts": mounts}]


def fluentbit_volumes(answers: Answers) -> list[dict[str, object]]:
    if not answers.raycluster.fluentbit:
        return []
    return [{"name": "fluentbit-config-volume", "configMap": {"name": fluentbit_name(answers)}}]
