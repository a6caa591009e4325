"""The audit file: for every request that writes a line {time, identity, method, url, operation, result}."""

import re
from pathlib import Path

from grpo_wizard.state.jsonl import JsonlFile
from grpo_wizard.state.model import now

_CREDENTIAL = re.compile(r"(?i)([?&][^=&#]*(?:token|key|secret|password|signature)[^=&#]*=)[^&#]*")


class AuditLog:
    """A deployment's audit file, 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = JsonlFile(path)

    def append(self, identity: str, method: str, url: str, operation: str, result: str) -> None:
        """Append one request; a credential in its query is masked. Raises StateInvalid, StateNotSaved."""
        self._lines.append(
            {
                "time": now(),
                "identity": identity,
                "method": method,
                "url": _CREDENTIAL.sub(r"\1***", url),
                "operation": operation,
                "result": result,
            }
        )
