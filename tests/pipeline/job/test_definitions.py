"""Definitions that change, break and go out of reach while a stream runs."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.serving import serving_answers, serving_in_thread

from signalbook.client import Client, NotFound, Unreachable
from signalbook.messages import parse_flags
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job import definitions as following
from signalbook.pipeline.job.definitions import Definitions, build_file_name
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.settings import Settings

STOP = "on_broken_definition=stop"
BROKEN = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": {"type": "nonsense"}}


class Followed:
    """Definitions out of a file, and what was said of them."""

    def __init__(self, path: Path, registry: str = "", *flags: str) -> None:
        self.said: list[str] = []
        cache_file, policy = path.parent / "kept.json", parse_flags(flags)
        self.definitions = Definitions(
            registry or str(path), (), policy, snapshot_file=cache_file, notify=self.said.append
        )

    def types(self) -> set[str]:
        return {xid.rpartition("/")[2] for xid in self.definitions.read_current().selected}


@pytest.fixture
def rewrite(definitions: Path, parcels: Any) -> Callable[..., None]:
    """Writes the catalogue anew, with more messages."""

    def write(**messages: Any) -> None:
        document = parcels.catalogue()
        document["messagegroups"]["parcels"]["messages"] |= messages
        definitions.write_text(json.dumps(document))

    return write


def test_new_definitions_are_followed(definitions: Path, rewrite: Callable[..., None], parcels: Any) -> None:
    followed = Followed(definitions)
    before = followed.definitions.read_current()
    assert followed.definitions.read_current() is before
    rewrite(late=parcels.message("late"))
    assert "late" in followed.types()
    assert [words.partition(":")[0] for words in followed.said] == ["new definitions"]


def test_rereading_equal_definitions_is_no_change(definitions: Path) -> None:
    """A registry without a change feed is read every few seconds, and other changes cause reading too."""
    followed = Followed(definitions)
    before = followed.definitions.read_current()
    definitions.write_text(definitions.read_text() + " ")
    assert followed.definitions.read_current().fingerprint == before.fingerprint
    assert followed.said == []


def test_broken_definitions_are_not_used(definitions: Path, rewrite: Callable[..., None], parcels: Any) -> None:
    """The last valid state stays in force as a whole, and one warning is given (K-47)."""
    followed = Followed(definitions, "", STOP)
    for text in ("{", json.dumps(parcels.catalogue())[:-20]):
        definitions.write_text(text)
        assert followed.types() == {"parcel.accepted", "parcel.delivered", "parcel.noted"}
    rewrite(bad=parcels.message("bad", **BROKEN))
    for _ in range(3):
        assert "bad" not in followed.types()
    assert sum("bad" in words for words in followed.said) == 1
    rewrite(good=parcels.message("good"))
    assert "good" in followed.types()
    assert followed.said[-1] == "the definitions can be followed again"


def test_definitions_are_kept_while_their_file_is_missing(
    definitions: Path, rewrite: Callable[..., None], parcels: Any
) -> None:
    followed = Followed(definitions)
    definitions.unlink()
    assert len([followed.types() for _ in range(2)][-1]) == 3
    assert len(followed.said) == 1
    rewrite(late=parcels.message("late"))
    assert "late" in followed.types()


def test_invalid_definitions_at_the_start_are_an_error(
    definitions: Path, rewrite: Callable[..., None], parcels: Any
) -> None:
    rewrite(bad=parcels.message("bad", **BROKEN))
    with pytest.raises(PipelineError, match="cannot be used"):
        Followed(definitions, "", STOP)


def test_broken_definition_is_omitted_until_it_is_repaired(
    definitions: Path, rewrite: Callable[..., None], parcels: Any
) -> None:
    """The others go on, as they are by now, and people are told once, by name."""
    followed = Followed(definitions)
    rewrite(late=parcels.message("late"), bad=parcels.message("bad", **BROKEN), worse=5)
    for _ in range(3):
        snapshot = followed.definitions.read_current()
    assert {xid.rpartition("/")[2]: omission.known_by for xid, omission in snapshot.left_out.items()} == {
        "bad": "definition", "worse": "nothing"}  # fmt: skip
    assert "late" in followed.types()
    warnings = [words for words in followed.said if "is left out" in words]
    assert len(warnings) == 2
    assert "messages/bad cannot be used: " in warnings[0]
    assert "nonsense" in warnings[0]
    again = Followed(definitions, "http://127.0.0.1:1")
    assert again.definitions.read_current().left_out.keys() == snapshot.left_out.keys()
    rewrite(late=parcels.message("late"), bad=parcels.message("bad"), worse=parcels.message("worse"))
    assert followed.definitions.read_current().left_out == {}


def test_stored_definitions_are_used_if_the_registry_is_down(definitions: Path) -> None:
    nowhere = "http://127.0.0.1:1"
    with pytest.raises(Unreachable):
        Followed(definitions, nowhere)
    snapshot = Followed(definitions).definitions.read_current()
    again = Followed(definitions, nowhere)
    assert again.definitions.read_current().fingerprint == snapshot.fingerprint
    assert "kept from before" in again.said[0]
    assert build_file_name("a", ()) != build_file_name("a", ("/messagegroups/x",)) != build_file_name("b", ())


def served(folder: Path) -> AbstractContextManager[str]:
    """A registry on a real socket."""
    database, sinks = f"sqlite:///{folder / 'registry.db'}", str(folder / "sinks")
    return serving_in_thread(Settings(db=database, port=0, sink_folder=sinks))


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is slow to answer must not look like a registry that does not; and one look at that is enough."""
    for name in ("_PATIENCE", "_PAUSE"):
        monkeypatch.setattr(following, name, 600.0)


@pytest.mark.usefixtures("_patient")
def test_a_registry_is_followed_by_its_change_feed(definitions: Path, tmp_path: Path, parcels: Any) -> None:
    """Changes apply from the next batch on; while the registry is unavailable, the previous state applies (K-47)."""
    document = parcels.catalogue()
    with served(tmp_path) as url, Client(url) as client:
        client.import_document(document)
        followed = Followed(definitions, url)
        before = followed.definitions.read_current()
        assert followed.definitions.read_current() is before
        document["messagegroups"]["parcels"]["messages"] = {"late": parcels.message("late")}
        client.import_document(document)
        assert followed.types() == {"parcel.accepted", "parcel.delivered", "parcel.noted", "late"}
    for _ in range(3):
        assert "late" in followed.types()
    assert [words.partition(":")[0] for words in followed.said] == [
        "new definitions",
        "the definitions before stay in force",
    ]


@pytest.mark.usefixtures("_patient")
def test_hidden_definitions_are_reported(definitions: Path, tmp_path: Path, parcels: Any) -> None:
    document = parcels.catalogue()
    document["messagegroups"]["others"] = {"messages": {"secret.one": parcels.message("secret.one")}}
    some = ["/messagegroups/parcels", "/schemagroups"]
    rule: dict[str, Any] = {"who": ["subject:spark"], "role": "reader", "on": some}
    root = {"who": ["subject:root"], "role": "administrator"}
    with served(tmp_path) as url, Client(url) as client:
        client.import_document(document)
        tokens = {name: client.tokens.add({"subject": name})["token"] for name in ("spark", "root", "else")}
        client.access.put({"rules": [root, rule, {**rule, "who": ["subject:else"], "on": ["/schemagroups"]}]}, new=True)
        url = url.replace("http://", "http://${TOKEN}@")
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("TOKEN", tokens["spark"])
            followed = Followed(definitions, url)
            assert followed.types() == {"parcel.accepted", "parcel.delivered", "parcel.noted"}
            followed.definitions.close()
            (words,) = followed.said
            assert words.endswith("spark may not read all of it: definitions and schemas that are hidden are not used")
            assert tokens["spark"] not in words
            environment.setenv("TOKEN", tokens["else"])
            with pytest.raises(PipelineError, match=r"no message definitions in .*\n.*else may not read all"):
                Snapshot.load(url)
            environment.setenv("TOKEN", tokens["root"])
            everything = Snapshot.load(url)
            assert (len(everything.selected), everything.doubts) == (4, ())


def scripted(document: Any, *exports: int, held: Event | None = None) -> AbstractContextManager[str]:
    """A registry whose feed has no events, and that answers reads with one status after the other, finally 200.

    With ``held``, its feed does not respond until the event ``held`` is set.
    """
    remaining = list(exports)
    headers = {"Content-Type": "application/json", "Link": "<http://127.0.0.1/events?after=7>;rel=last"}

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, dict[str, str], bytes]:
        if request.path.startswith("/export"):
            return remaining.pop(0) if remaining else 200, headers, json.dumps(document).encode()
        if held is not None and request.path.startswith("/events"):
            held.wait()
        return 200, headers, b"[]"

    return serving_answers(answer)


@pytest.mark.usefixtures("_patient")
def test_unavailable_registry_is_read_again(definitions: Path, rewrite: Callable[..., None], parcels: Any) -> None:
    """The feed was queried before: this alone must not make the cached definitions current."""
    Followed(definitions)
    rewrite(late=parcels.message("late"))
    with scripted(json.loads(definitions.read_text()), 502) as url:
        followed = Followed(definitions, url)
        assert "kept from before" in followed.said[0]
        assert "late" in followed.types()
        assert followed.said[-1] == "the definitions can be followed again"
        followed.definitions.close()
    with scripted({}, 404) as url, pytest.raises(NotFound):
        Followed(definitions, url)


def test_a_registry_that_is_slow_at_the_start_is_waited_for(
    definitions: Path, parcels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries of the feed have a short timeout; without cached definitions, the timeout must not end the stream."""
    monkeypatch.setattr(following, "_PATIENCE", 0.2)
    held = Event()
    with scripted(parcels.catalogue(), held=held) as url:
        followed = Followed(definitions, url)
        assert followed.said == []
        assert followed.types() == {"parcel.accepted", "parcel.delivered", "parcel.noted"}
        followed.definitions.close()
        held.set()


def test_versions_that_definitions_derive_from_are_followed(tmp_path: Path, parcels: Any) -> None:
    """A missing base is reported once (F-15, F-17)."""
    base = "/messagegroups/g/messages/base"
    with served(tmp_path) as url, Client(url) as client:
        client.put(base, {"versions": {"1": parcels.message("one"), "2": parcels.message("two")}})
        client.put("/messagegroups/g/messages/pinned", {"basemessage": f"{base}/versions/1"})
        client.put("/messagegroups/g/messages/latest", {"basemessage": base})
        followed = Followed(tmp_path / "kept.json", url)

        def types() -> list[str]:
            compiled_definitions = followed.definitions.read_current().compile(parse_flags(())).definitions
            definitions = (
                compiled_definitions[f"/messagegroups/g/messages/{name}"].definition for name in ("pinned", "latest")
            )
            return [definition.get("envelopemetadata", {}).get("type", {}).get("value") for definition in definitions]

        assert types() == ["one", "two"]
        client.patch(f"{base}/versions/1", parcels.message("one.b"))
        assert types() == ["one.b", "two"]
        client.put(f"{base}/versions/3", parcels.message("three"))
        assert types() == ["one.b", "three"]
        client.delete(f"{base}/versions/1")
        assert types() == types() == [None, "three"]
        message = f"/messagegroups/g/messages/pinned: there is no base message {base}/versions/1"
        assert followed.said.count(message) == 1
        followed.definitions.close()
