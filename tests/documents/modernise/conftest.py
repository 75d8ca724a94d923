"""One message, endpoint or schema, put right as part of a registry."""

from collections.abc import Callable

import pytest

from signalbook.documents.modernise import modernise
from signalbook.values import JSON, JSONObject

Mended = tuple[JSONObject, list[str]]
Mend = Callable[[str, JSON], Mended]

_LABELS = ("import.source", "import.repairs")


@pytest.fixture
def mend() -> Mend:
    """The entity at an xid after repair, without its labels, and the repairs as ``attribute [rule]``."""

    def run(xid: str, body: JSON) -> Mended:
        document: JSON = body
        for part in reversed(xid[1:].split("/")):
            document = {part: document}
        entity, repairs = modernise(document, source="x.json")
        for part in xid[1:].split("/"):
            entity = entity[part]
        labels = {name: value for name, value in entity.pop("labels", {}).items() if name not in _LABELS}
        labelled = {**entity, "labels": labels} if labels else entity
        return labelled, [f"{repair.path.removeprefix(xid + '#')} [{repair.rule}]" for repair in repairs]

    return run
