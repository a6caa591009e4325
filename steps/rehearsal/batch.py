"""Batch requests: several calls in one multipart/mixed body, as gcloud sends them for more than one name."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from .contract import ApiError

JSON = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One call of a batch."""

    content_id: str
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


def split(content_type: str, raw: bytes) -> list[Part]:
    """The calls of a batch's body. Raises ApiError 400 where it is none."""
    message = BytesParser().parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + raw)
    if not message.is_multipart():
        raise ApiError(
            400,
            "Failed to parse batch request, error: the body is not multipart/mixed.",
            "INVALID_ARGUMENT",
            "badRequest",
        )
    return [_part(part) for part in message.get_payload() if isinstance(part, Message)]


def _part(part: Message) -> Part:
    raw = part.get_payload(decode=True)
    head, _, body = (raw if isinstance(raw, bytes) else b"").replace(b"\r\n", b"\n").partition(b"\n\n")
    first, *lines = head.decode().split("\n")
    words = first.split(" ")
    if len(words) < 2:
        raise ApiError(
            400,
            "Failed to parse batch request, error: a part holds no request line.",
            "INVALID_ARGUMENT",
            "badRequest",
        )
    url = urlsplit(words[1])
    headers = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    return Part(
        part.get("Content-ID", ""),
        words[0],
        url.path,
        parse_qs(url.query, keep_blank_values=True),
        headers,
        body,
    )


async def answer_all(parts: list[Part], one: Callable[[Part], Awaitable[tuple[int, JSON]]]) -> web.Response:
    """Asks `one` for each part and joins the answers, each with the id of its question."""
    boundary = f"batch_{secrets.token_urlsafe(16)}"
    pieces = []
    for part in parts:
        status, body = await one(part)
        text = json.dumps(body)
        reply = f"<response-{part.content_id.strip('<>')}>"
        pieces.append(
            f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: {reply}\r\n\r\n"
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json; "
            "charset=UTF-8\r\n"
            f"Content-Length: {len(text.encode())}\r\n\r\n{text}\r\n"
        )
    whole = "".join(pieces) + f"--{boundary}--\r\n"
    headers = {"Content-Type": f"multipart/mixed; boundary={boundary}"}
    return web.Response(body=whole.encode(), headers=headers)
