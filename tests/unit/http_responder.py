"""A loopback HTTP server that answers from a table, for drivers whose decisions hang on a few documents."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, Any]]
Answers = Mapping[str, Answer | list[Answer]]  # a list is answered in its order, its last entry from then on


@dataclass
class Responder:
    """`requests` are `METHOD path` in the order in which they came, `bodies` what they carried."""

    url: str = ""
    requests: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    @property
    def writes(self) -> list[str]:
        """The requests that change something."""
        return [line for line in self.requests if not line.startswith("GET ")]


def error(status: int, message: str, reason: str = "") -> tuple[int, dict[str, Any]]:
    """An error as Google's JSON APIs word one."""
    body: dict[str, Any] = {
        "code": status,
        "message": message,
        "errors": [{"reason": reason, "message": message}],
    }
    return status, {"error": body}


@contextmanager
def http_responder(answers: Answers) -> Iterator[Responder]:
    """Runs until the block ends. Keys are `METHOD path-suffix`, the longest that fits counts; all else is 404."""
    responder = Responder()
    queues = {key: list(value) for key, value in answers.items() if isinstance(value, list)}

    def answer(key: str) -> Answer:
        found = answers[key]
        if isinstance(found, tuple):
            return found
        return queues[key].pop(0) if len(queues[key]) > 1 else queues[key][0]

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            responder.requests.append(f"{self.command} {path}")
            responder.bodies.append(json.loads(content) if content else None)
            fitting = [
                key for key in answers if self.command == key.split()[0] and path.endswith(key.split()[1])
            ]
            status, body = answer(max(fitting, key=len)) if fitting else error(404, "not found", "notFound")
            text = json.dumps(body).encode()
            self.send_response_only(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    responder.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield responder
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
