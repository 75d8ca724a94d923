"""What has to hold of every response, and of what the server leaves in its log."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.fuzzing.grammar import Request
from tests.fuzzing.wire import Response

_JSON: Final = ("application/json", "application/problem+json", "application/vnd.schemaregistry.v1+json")
_CONFLUENT: Final = ("/compat/confluent", "/apis/ccompat/")
_WITHOUT_SUBJECT: Final = "#parsing_data"
SLOW_SECONDS: Final = 30.0
_TROUBLE: Final = ("Traceback (most recent call last)", "(instance ", "Exception in ASGI", "never awaited")


def faults(request: Request, response: Response, secrets: Iterable[bytes]) -> Iterator[str]:
    """Yield the faults of a response."""
    status = response.status
    if status >= 500:
        if status != 503:
            yield f"answered {status}"
        elif "retry-after" not in response.headers:
            yield "503 without Retry-After"
    if response.seconds > SLOW_SECONDS:
        yield f"took {SLOW_SECONDS:g} s or more"
    if any(secret in response.body for secret in secrets):
        yield "repeats a secret"
    if status >= 400 and request.method != "HEAD":
        yield from _form(request, response)


def _form(request: Request, response: Response) -> Iterator[str]:
    """Yield what is wrong with an error: a page of the explorer, JSON as Confluent's clients read it, or RFC 9457."""
    if request.target.startswith("/ui") and response.headers.get("content-type", "").startswith("text/html"):
        return
    if not response.headers.get("content-type", "").startswith(_JSON):
        yield f"a {response.status} that is no JSON"
        return
    try:
        body = json.loads(response.body)
    except ValueError:
        yield f"a {response.status} whose JSON is broken"
        return
    if request.target.startswith(_CONFLUENT) and isinstance(body, dict) and "error_code" in body:
        return
    if not isinstance(body, dict) or not all(isinstance(body.get(name), str) for name in ("type", "title")):
        yield f"a {response.status} without type and title"
    elif not ("subject" in body or "instance" in body or body["type"].endswith(_WITHOUT_SUBJECT)):
        yield f"a {response.status} that says not about what"
    elif "status" in body and body["status"] != response.status:
        yield f"a {response.status} that says {body['status']}"


def log_faults(log: Path, secrets: Iterable[bytes]) -> Iterator[str]:
    """Lines that must not be in a log."""
    hidden = tuple(secret.decode() for secret in secrets)
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if any(text in line for text in _TROUBLE):
                yield f"log: {line[:300].rstrip()}"
            if any(text in line for text in hidden):
                yield "log: a secret"
