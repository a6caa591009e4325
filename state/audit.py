"""The audit file: two lines for every request that writes, one before it is sent and one for its outcome.

A line is {time, identity, method, url, operation, result, id, phase}.
"""

import re
from pathlib import Path

from grpo_wizard.state.jsonl import JsonlFile
from grpo_wizard.state.model import now

_CREDENTIAL = re.compile(r"(?i)([?&][^=&#]*(?:token|key|secret|password|signature)[^=&#]*=)[^&#]*")


class AuditLog:
    """The audit file of a deployment, mode 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = JsonlFile(path)

    def append(
        self,
        identity: str,
        method: str,
        url: str,
        operation: str,
        result: str,
        *,
        id: str = "",
        phase: str = "",
    ) -> None:
        """Append one line; a credential in the URL's query is masked. Raises StateInvalid, StateNotSaved.

        `phase` is `attempt` (written before the request is sent, `result` empty) or `result`; both lines of a request share `id`.
        """
        line = {
            "time": now(),
            "identity": identity,
            "method": method,
            "url": _CREDENTIAL.sub(r"\1***", url),
            "operation": operation,
            "result": result,
        }
        self._lines.append(line | ({"id": id, "phase": phase} if id else {}))
