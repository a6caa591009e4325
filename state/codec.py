"""Encode a deployment as a JSON document and decode it. Whatever is written can be read back."""

import json

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from grpo_wizard.state.errors import StateInvalid
from grpo_wizard.state.migrations import upgrade
from grpo_wizard.state.model import Deployment


def encode(deployment: Deployment) -> bytes:
    """Encode as UTF-8 JSON, and check that it can be read back. Raises StateInvalid."""
    try:
        document = deployment.model_dump(mode="python", warnings="error")
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1)
        data = text.encode() + b"\n"
        Deployment.model_validate(document)
    except ValidationError as error:
        raise StateInvalid(explain(error)) from None
    except UnicodeError:
        raise StateInvalid("The text is not valid Unicode.") from None
    except (TypeError, ValueError, RecursionError, PydanticSerializationError) as error:
        raise StateInvalid(f"{error}") from None
    return data


def decode(data: bytes, name: str) -> Deployment:
    """Decode a document. Raises NewerVersion, or ValueError with the reason."""
    if not data.strip(b" \t\r\n\0"):
        raise ValueError("it is empty")
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is truncated or damaged at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - the one error of a bad document
    try:
        deployment = Deployment.model_validate(upgrade(document))
    except ValidationError as error:
        raise ValueError(explain(error)) from None
    if deployment.name != name:
        raise ValueError(f"it belongs to the deployment {deployment.name}")
    return deployment


def explain(error: ValidationError) -> str:
    """Describe the first three errors, each with its location and rule."""
    # Only location and rule: the value itself may be long or confidential.
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'document'}: {e['msg']}" for e in error.errors()[:3])
