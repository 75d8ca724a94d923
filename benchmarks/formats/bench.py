"""What schema documents cost by their size: reading and checking, comparing, hashing, for each format.

CPU seconds in this process, garbage collection included, of documents of 64 KiB to 64 MiB that say as much as they can:
lists of values, and members. Of each size the document is checked, compared in both directions with one that has a
value or member less, and hashed. What is refused says by which rule.

    python -m benchmarks.formats.bench [--most BYTES] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.registry.bench import machine

from signalbook.formats import Format, SchemaError, find
from signalbook.formats.compatibility import SchemaText, list_differences

RESULTS = Path(__file__).parents[1] / "results" / "formats.json"
SIZES = [1 << power for power in range(16, 27, 2)]
STRUCTURE = {"$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://example.com/a", "name": "R"}
XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="e">{}</xs:element></xs:schema>'


class Shape(NamedTuple):
    """Documents with a number of values or members, in a format."""

    format: str
    document: Callable[[int], bytes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="bytes of the largest document")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    results: dict[str, Any] = {"machine": machine()}
    for name, shape in SHAPES.items():
        measured(shape, SIZES[0])  # what is loaded with the first use does not count
        results[name] = {f"{size >> 10} KiB": measured(shape, size) for size in SIZES if size <= options.most}
        print(name, json.dumps(results[name]), flush=True)
    results["values"] = {name: listed(SHAPES[name]) for name in SHAPES if name.endswith("values")}
    results["machine"]["load after"] = os.getloadavg()
    options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def measured(shape: Shape, size: int) -> dict[str, Any]:
    """CPU seconds of one size."""
    number = size * 1000 // len(shape.document(1000))
    number = size * number // len(shape.document(number))  # larger numbers have more digits
    return costs(shape, shape.document(number - 1), shape.document(number))


def listed(shape: Shape) -> dict[str, Any]:
    """The same of 500,000 values."""
    return costs(shape, shape.document(499_999), shape.document(500_000))


def costs(shape: Shape, old: bytes, new: bytes) -> dict[str, Any]:
    reader = find(shape.format)
    assert reader is not None
    found: dict[str, Any] = {"bytes": len(new)}
    findings, found["check"] = timed(lambda: reader.check(new, shape.format))
    if findings:
        return found | {"refused": findings[0].rule}
    # With a space behind, or the caches would know them.
    texts = [SchemaText(document=document + b" ", format=shape.format) for document in (new, old)]
    differences, found["compare"] = timed(lambda: list_differences("full", *texts))
    found["differences"] = sorted({difference.rule for _, difference in differences})
    found["hash"] = timed(lambda: fingerprint(reader, new + b"  ", shape.format))[1]
    return found


def fingerprint(reader: Format, document: bytes, name: str) -> str:
    """The hash of a schema, with the reading that it takes."""
    try:
        return reader.parse(document, name).fingerprint
    except SchemaError as error:
        return str(error)


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    found = run()
    return found, round(time.process_time() - began, 3)


def avro_values(number: int) -> bytes:
    return json.dumps({"type": "enum", "name": "E", "symbols": [f"value_{i}" for i in range(number)]}).encode()


def avro_fields(number: int) -> bytes:
    fields = [{"name": f"field_{i}", "type": "int", "default": 0} for i in range(number)]
    return json.dumps({"type": "record", "name": "R", "fields": fields}).encode()


def json_values(number: int) -> bytes:
    return json.dumps({"enum": [f"value_{i}" for i in range(number)]}).encode()


def json_members(number: int) -> bytes:
    return json.dumps({"properties": {f"member_{i}": {"type": "integer"} for i in range(number)}}).encode()


def structure_values(number: int) -> bytes:
    return json.dumps({**STRUCTURE, "type": "string", "enum": [f"value_{i}" for i in range(number)]}).encode()


def structure_members(number: int) -> bytes:
    members = {f"member_{i}": {"type": "int32"} for i in range(number)}
    return json.dumps({**STRUCTURE, "type": "object", "properties": members}).encode()


def protobuf_values(number: int) -> bytes:
    values = "".join(f"V_{i} = {i};" for i in range(number))
    return f'syntax = "proto3"; enum E {{ {values} }}'.encode()


def protobuf_fields(number: int) -> bytes:
    # Numbers from 19,000 to 19,999 are reserved.
    fields = "".join(f"int32 field_{i} = {i + 1 if i < 18_000 else i + 2_001};" for i in range(number))
    return f'syntax = "proto3"; message M {{ {fields} }}'.encode()


def xsd_values(number: int) -> bytes:
    values = "".join(f'<xs:enumeration value="value_{i}"/>' for i in range(number))
    return XSD.format(
        f'<xs:simpleType><xs:restriction base="xs:string">{values}</xs:restriction></xs:simpleType>'
    ).encode()


def xsd_elements(number: int) -> bytes:
    elements = "".join(f'<xs:element name="element_{i}" type="xs:int" minOccurs="0"/>' for i in range(number))
    return XSD.format(f"<xs:complexType><xs:sequence>{elements}</xs:sequence></xs:complexType>").encode()


SHAPES = {
    "Avro, values": Shape("Avro/1.12", avro_values),
    "Avro, fields": Shape("Avro/1.12", avro_fields),
    "JSON Schema, values": Shape("JsonSchema/2020-12", json_values),
    "JSON Schema, members": Shape("JsonSchema/2020-12", json_members),
    "JSON Structure, values": Shape("JsonStructure/draft-04", structure_values),
    "JSON Structure, members": Shape("JsonStructure/draft-04", structure_members),
    "Protobuf, values": Shape("Protobuf/3", protobuf_values),
    "Protobuf, fields": Shape("Protobuf/3", protobuf_fields),
    "XML Schema, values": Shape("XSD/1.0", xsd_values),
    "XML Schema, elements": Shape("XSD/1.0", xsd_elements),
}

if __name__ == "__main__":
    main()
