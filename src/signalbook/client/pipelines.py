"""Pipelines that tell a server of their batches, and the history of their reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from signalbook.client.answers import BadAnswer, json_object
from signalbook.client.transport import Transport
from signalbook.values import JSONError, JSONObject, dump_json, parse_json

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
        """Tell of a batch; telling it again changes nothing. Returns its ``number``."""
        headers = {"Content-Type": "application/json"}
        path = f"{_path(name)}/reports"
        return json_object(self._transport.send("POST", path, content=dump_json(report), headers=headers))

    def delete(self, name: str) -> None:
        """Forget one and its reports."""
        self._transport.send("DELETE", _path(name))

    def _pages(self, url: str) -> Iterator[JSONObject]:
        seen: set[str] = set()
        while url:
            if url in seen:
                raise BadAnswer(f"{url}: a page names itself, or one before it, as the next")
            seen.add(url)
            answer = self._transport.send("GET", url)
            try:
                found = parse_json(answer.content)
            except JSONError as error:
                raise BadAnswer(f"{answer.url}: this is no list of pipelines or reports ({error})") from None
            if not isinstance(found, list) or not all(isinstance(member, dict) for member in found):
                raise BadAnswer(f"{answer.url}: this is no list of pipelines or reports")
            yield from found
            url = self._transport.next_page(answer)


def _path(name: str) -> str:
    return f"{PATH}/{quote(name, safe='')}"
