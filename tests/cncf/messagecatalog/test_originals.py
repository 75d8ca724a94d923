import json

import pytest
import yaml

from signalbook.cncf.messagecatalog import originals
from signalbook.cncf.messagecatalog.conversion import definition_to_message
from signalbook.cncf.messagecatalog.originals import DRAFT, Content

GROUP = {"envelope": "CloudEvents/1.0"}
DEFINITION = {"attributes": {"type": {"value": "a.b"}, "subject": {"required": True}, "source": {"value": None}}}


def test_original_definition_is_stored_if_the_message_lacks_parts() -> None:
    """A missing value counts as "", but the returned definition has only what was sent (C-11, C-20)."""
    message = originals.keep_definition(
        "CloudEvents", definition_to_message("CloudEvents", DEFINITION, GROUP), DEFINITION
    )
    assert originals.restore_definition("CloudEvents", message) == DEFINITION
    plain = {"attributes": {"type": {"value": "a.b", "required": True}}}
    message = definition_to_message("CloudEvents", plain, GROUP)
    assert DRAFT not in originals.keep_definition("CloudEvents", message, plain)


def test_original_is_used_until_the_message_changes() -> None:
    """A version that was changed through the API of xRegistry shows its new content (J-10)."""
    message = originals.keep_definition(
        "CloudEvents", definition_to_message("CloudEvents", DEFINITION, GROUP), DEFINITION
    )
    message["description"] = "of the definition, not in it"
    assert originals.restore_definition("CloudEvents", message) == DEFINITION
    message["envelopemetadata"] = {"type": {"value": "a.b"}, "colour": {"value": "red"}}
    assert originals.restore_definition("CloudEvents", message)["attributes"]["colour"] == {"value": "red"}


@pytest.mark.parametrize("body", [b'{ "attributes" : {"type":"a.b"} }', b"\xff\x00 no text", b""])
@pytest.mark.parametrize("contenttype", ["application/json; charset=utf-8; x=1", None])
def test_documents_of_the_first_draft_come_back_byte_for_byte(body: bytes, contenttype: str | None) -> None:
    """The stored document equals the sent document byte for byte (B-20)."""
    sent = Content(body=body, contenttype=contenttype)
    message = originals.keep_content("our own", {}, sent)
    json.dumps(message)
    assert originals.render_content("our own", "a", 1, message) == sent


def test_documents_of_the_first_draft_are_definitions_of_the_next() -> None:
    """Other members are not part of the definition (B-23)."""
    body = b'{"id": "a.b", "version": 7, "format": "CloudEvents", "attributes": {"type": "a.b", "x": null}}'
    sections = {"attributes": {"type": {"value": "a.b"}}}
    message = definition_to_message("CloudEvents", sections, GROUP)
    message = originals.keep_content("CloudEvents", message, Content(body=body, contenttype="text/plain"))
    assert originals.restore_definition("CloudEvents", message) == sections


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"any": ["thing"]}', {"any": ["thing"]}),
        (b"<xml/>", {"contenttype": "x/y", "content": "<xml/>"}),
        (b"\xff", {"contenttype": "x/y", "contentbase64": "/w=="}),
    ],
)
def test_documents_of_other_formats_are_returned_as_stored(body: bytes, expected: object) -> None:
    """The draft 0.1 has only JSON objects (B-2, J-18)."""
    message = originals.keep_content("our own", {}, Content(body=body, contenttype="x/y"))
    assert originals.restore_definition("our own", message) == expected


def test_a_message_that_no_draft_wrote_is_a_document_of_the_first_draft() -> None:
    """The document has the members that the examples of S0 have in addition to the sections (B-23, J-18)."""
    message = {**definition_to_message("CloudEvents", DEFINITION, GROUP), "description": "d"}
    content = originals.render_content("CloudEvents", "a.b", 3, message)
    assert content.contenttype == "application/json"
    assert json.loads(content.body) == yaml.safe_load("""
    {id: a.b, format: CloudEvents, version: 3, description: d, attributes: {type: a.b, subject: "", source: ""}}
    """)


def test_damaged_originals_are_ignored() -> None:
    of = originals.keep_content("our own", {}, Content(body=b"x", contenttype=None))[DRAFT]["of"]
    for draft in ({"of": of, "contentbase64": "?"}, {"of": of, "definition": 5}, "text", {"of": "other"}):
        assert originals.restore_definition("our own", {DRAFT: draft}) == {}


def test_members_that_no_draft_knows_are_kept() -> None:
    """Extra attributes are allowed (B-4)."""
    assert originals.load_members(originals.keep_members({}, {"owner": "us"})) == {"owner": "us"}
