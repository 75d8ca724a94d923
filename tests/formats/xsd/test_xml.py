"""XML from strangers."""

from __future__ import annotations

import pytest

from signalbook.formats.xsd.xml import MAX_DEPTH, XMLError, read

LAUGHS = b'<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><l>&b;</l>'


def test_elements_have_names_attributes_lines_and_prefixes() -> None:
    found = read(b'<a xmlns="urn:d" xmlns:p="urn:p">\n<p:b p:c="1" d="2"/>\n</a>')
    assert found.root.tag == "{urn:d}a"
    assert [(child.tag, child.attrib) for child in found.root] == [("{urn:p}b", {"{urn:p}c": "1", "d": "2"})]
    assert found.lines == (1, 2)
    assert found.prefixes == {"": "urn:d", "p": "urn:p"}


@pytest.mark.parametrize(
    "data",
    [
        '<?xml version="1.0" encoding="UTF-16"?><a>é</a>'.encode("utf-16"),
        '<?xml version="1.0" encoding="ISO-8859-1"?><a>é</a>'.encode("latin-1"),
        '\ufeff<a>é</a>'.encode(),
        "<!-- c --><?p i?><a><![CDATA[é]]></a>".encode(),
    ],
)  # fmt: skip
def test_encodings(data: bytes) -> None:
    assert read(data).root.text == "é"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not XML"),
        (b"<a>", "not XML"),
        (b"<a/><b/>", "not XML"),
        (b"<a b='1' b='2'/>", "not XML"),
        (b"<p:a/>", "not XML"),
        (b"<a>&b;</a>", "not XML"),
        (b"<a>\xff</a>", "not XML"),
        (b"<a>\x00</a>", "not XML"),
        (b'<?xml version="1.0" encoding="none-such"?><a/>', "not XML"),
        (LAUGHS, "document types"),
        (b"<!DOCTYPE a><a/>", "document types"),
        (b"<a xmlns='{x}y'/>", "not XML"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "line 1: document types"),
        (b'<!DOCTYPE a [<!ENTITY % p SYSTEM "http://127.0.0.1:9/">%p;]><a/>', "document types"),
        (b"<a>" * (MAX_DEPTH + 1) + b"</a>" * (MAX_DEPTH + 1), "deeper"),
        (b"<a>" + b"<b/>" * 100_000 + b"</a>", "more than 100000 elements"),
        (b"<a>" + b" " * 17_000_000 + b"</a>", "more than 16777216 bytes"),
    ],
    ids=range(17),
)
def test_what_is_not_accepted(data: bytes, message: str) -> None:
    with pytest.raises(XMLError, match=message):
        read(data)
