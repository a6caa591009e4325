"""The paths of Hugging Face and W&B that are served, as discovery documents.

Neither publishes such a document; written by hand, 2026-11-30.
"""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]
_MODEL = {name: {"type": "string", "location": "path", "required": True} for name in ("owner", "model")}


def _get(method_id: str, path: str, parameters: JSON | None = None) -> JSON:
    return {"id": method_id, "path": path, "httpMethod": "GET", "parameters": parameters or {}}


HANDWRITTEN_DOCUMENTS: dict[str, JSON] = {
    "huggingface.co": {
        "methods": {
            "whoami": _get("huggingface.whoami", "api/whoami-v2"),
            "model": _get("huggingface.models.get", "api/models/{owner}/{model}", _MODEL),
            "short": _get("huggingface.models.get", "api/models/{model}", {"model": _MODEL["model"]}),
            "check": _get("huggingface.models.authCheck", "api/models/{owner}/{model}/auth-check", _MODEL),
            "short-check": _get(
                "huggingface.models.authCheck", "api/models/{model}/auth-check", {"model": _MODEL["model"]}
            ),
        }
    },
    "api.wandb.ai": {
        "methods": {
            "graphql": {
                "id": "wandb.graphql",
                "path": "graphql",
                "httpMethod": "POST",
                "parameters": {},
                "request": {"$ref": "GraphQLRequest"},
            },
        },
        "schemas": {
            "GraphQLRequest": {
                "type": "object",
                "properties": {
                    "query": {"type": "string"},
                    "variables": {"type": "object", "additionalProperties": {"type": "any"}},
                    "operationName": {"type": "string"},
                },
            }
        },
    },
}
