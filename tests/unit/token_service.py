"""What stands for oauth2.googleapis.com, sts.googleapis.com and the metadata server: a small HTTP server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = dict[str, Any]
GRANTED = {"access_token": "ya29.made-up", "expires_in": 3599, "token_type": "Bearer"}


@dataclass
class TokenService:
    """`answers` by path (query left out): (status, body). `asked` counts requests by method and path."""

    answers: dict[str, tuple[int, Any]]
    date: float | None = None  # of the Date header; None: now
    url: str = ""
    requests: list[str] = field(default_factory=list)


@contextmanager
def token_service(answers: dict[str, tuple[int, Any]], date: float | None = None) -> Iterator[TokenService]:
    """Runs until the block ends."""
    service = TokenService(answers, date)

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0].rstrip("/") or "/"
            service.requests.append(f"{self.command} {path}")
            status, body = service.answers.get(path, (404, {"error": "not_found"}))
            text = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response_only(status)
            self.send_header("Date", formatdate(service.date, usegmt=True))
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_GET = do_POST = do_HEAD = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
