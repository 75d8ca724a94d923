"""Requests in logs are taken as the binding takes those that come over a wire."""

import gzip
import json
from base64 import b64encode
from typing import Any

import pytest

from signalbook.messages import Accepted, Contract, Message
from signalbook.messages.bindings.http import request
from signalbook.pipeline.sources.base import UnreadableMessage, build_single_batch
from signalbook.pipeline.sources.files import HTTP_JSONL


def read(line: bytes) -> Message:
    return HTTP_JSONL.message(build_single_batch("log", line, 0), 0)


def logged(**members: Any) -> bytes:
    return json.dumps({"method": "POST", "path": "/", **members}).encode()


def test_a_line_is_a_request() -> None:
    """The query is no part of the path, and methods are case-insensitive (K.5, K-7)."""
    line = logged(method="post", path="/orders?a=1&a=2", headers={"Content-Type": "text/plain", "X": ["1", "2"]})
    headers = [("Content-Type", "text/plain"), ("X", "1"), ("X", "2")]
    assert read(line) == request("POST", "/orders?a=1&a=2", headers, None)


def test_definitions_see_path_and_query() -> None:
    """A definition can require path and query separately (K-26)."""
    options = {"method": "POST", "path": "/orders", "query": [{"name": "shop", "value": "7"}]}
    definitions: Any = {"/messagegroups/g/messages/m": {"protocol": "HTTP", "protocoloptions": options}}
    contract = Contract.compile(definitions, lambda _: None)
    for query, accepted in (("shop=7&x=1", True), ("shop=8", False)):
        (outcome,) = contract.process(read(logged(path=f"/orders?{query}")))
        assert isinstance(outcome, Accepted) is accepted


def test_encodings_in_several_headers_are_all_undone() -> None:
    """K-40, RFC 9110 5.3"""
    body = b64encode(gzip.compress(gzip.compress(b"{}"))).decode()
    options: Any = {"/messagegroups/g/messages/m": {"protocol": "HTTP", "dataschemaformat": "JsonSchema/draft-07"}}
    options["/messagegroups/g/messages/m"]["dataschema"] = {"type": "object"}
    line = logged(headers={"content-type": "application/json", "content-encoding": ["gzip", "gzip"]}, body_base64=body)
    (outcome,) = Contract.compile(options, lambda _: None).process(read(line))
    assert isinstance(outcome, Accepted)
    assert outcome.data == {}


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"\xff", b"[]", b'{"method":"POST"}'),
        *(logged(body="a", body_base64="YQ=="), logged(body_base64="?"), logged(headers={"a": 1})),
        logged(body="\ud800"),
        b'{"method":"POST","path":"/","body":' + b"[" * 100_000,
    ],
)
def test_invalid_request_lines_are_unreadable(line: bytes) -> None:
    """The lines are unreadable messages (K-44)."""
    with pytest.raises(UnreadableMessage):
        read(line)
