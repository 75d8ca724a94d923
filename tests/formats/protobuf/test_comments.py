"""Comments of fields become their descriptions."""

from __future__ import annotations

from signalbook.formats import Struct
from signalbook.formats.protobuf import FORMAT

DOCUMENT = b"""
syntax = "proto3";
package shop;
// An order.
message Order {
  // What the customer
  // is to pay, in cents.
  int64 total = 1;
  string id = 2;  // Number on the slip
  message Line {
    /* Article */
    string sku = 1;
  }
  repeated Line lines = 3;
  oneof how {
    // Paid with it
    string card = 4;
  }
  int32 plain = 5;
}
"""


def test_fields_are_described_by_their_comments() -> None:
    shape = FORMAT.parse(DOCUMENT, "Protobuf/3", link="Order").shape()
    assert isinstance(shape, Struct)
    found = {field.name: field.description for field in shape.fields}
    assert found == {
        "total": "What the customer\nis to pay, in cents.",
        "id": "Number on the slip",
        "lines": "",
        "card": "Paid with it",
        "plain": "",
    }
    lines = next(field.shape for field in shape.fields if field.name == "lines")
    assert lines.item.fields[0].description == "Article"  # type: ignore[union-attr]
