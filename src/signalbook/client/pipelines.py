"""Pipelines that tell a server of their batches, and the history of their reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from signalbook.client.answers import json_object, json_objects
from signalbook.client.transport import Transport
from signalbook.values import JSONObject, dump_json

PATH: Final = "/pipelines"


class Pipelines:
    """``Client.pipelines``: iterate over it for all there are, by name, each with the gist of its newest report.

    Reports are JSON objects, as ``signalbook pipeline run --json`` prints them. Every method raises as those of
    ``Client``.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __iter__(self) -> Iterator[JSONObject]:
        """All of them, page after page."""
        return self._pages(PATH)

    def get(self, name: str) -> JSONObject:
        """One of them, with its newest report."""
        return json_object(self._transport.send("GET", _path(name)))

    def reports(self, name: str) -> Iterator[JSONObject]:
        """The reports that are kept of one, the newest first, page after page as they are asked for."""
        return self._pages(f"{_path(name)}/reports")

    def add(self, name: str, report: JSONObject) -> JSONObject:
        """Tell of a batch; the same again changes nothing, other words of it replace those. Returns its ``number``."""
        headers = {"Content-Type": "application/json"}
        path = f"{_path(name)}/reports"
        return json_object(self._transport.send("POST", path, content=dump_json(report), headers=headers))

    def delete(self, name: str) -> None:
        """Forget one and its reports."""
        self._transport.send("DELETE", _path(name))

    def _pages(self, url: str) -> Iterator[JSONObject]:
        for answer in self._transport.pages(url):
            yield from json_objects(answer, "pipelines or reports")


def _path(name: str) -> str:
    return f"{PATH}/{quote(name, safe='')}"
