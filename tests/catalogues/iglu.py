"""Snowplow's catalogue of schemas (github.com/snowplow/iglu-central), as a registry document."""

from base64 import b64encode
from pathlib import Path
from typing import Final

from signalbook.values import JSONObject

FORMAT: Final = "JsonSchema/draft-04"


def document(root: Path) -> JSONObject:
    """The JSON Schemas of a checkout, as they are: vendors are groups, names schemas, and versions their Versions."""
    groups: dict[str, JSONObject] = {}
    for path in sorted(root.glob("schemas/*/*/jsonschema/*")):
        vendor, name, _, version = path.relative_to(root / "schemas").parts
        schemas = groups.setdefault(vendor, {"schemas": {}})["schemas"]
        versions = schemas.setdefault(name, {"versions": {}})["versions"]
        versions[version] = {
            "format": FORMAT,
            "contenttype": "application/schema+json",
            "schemabase64": b64encode(path.read_bytes()).decode(),
        }
    return {"schemagroups": groups}
