"""OpenAPI documents of the CNCF drafts, ours and those of the drafts, with the operations that tests compare."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

METHODS = ("get", "put", "post", "delete", "patch", "head", "options")


@dataclass(frozen=True)
class Described:
    """An OpenAPI document: its operations by method and path, and the targets of its references."""

    operations: dict[tuple[str, str], Any]
    schemas: dict[str, Any]
    """The document that references lead into."""

    @property
    def statuses(self) -> set[tuple[str, str, str]]:
        """The documented statuses of all methods and paths."""
        return {(*key, status) for key, operation in self.operations.items() for status in operation["responses"]}

    def resolved(self, value: Any) -> Any:
        """Return ``value`` with all references replaced by what they refer to, also in other documents."""
        if isinstance(value, list):
            return [self.resolved(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" not in value:
            return {name: self.resolved(item) for name, item in value.items()}
        target = self.schemas
        for step in value["$ref"].partition("#/")[2].split("/"):
            target = target[step]
        return self.resolved(target)

    def schemas_of(self, response: Any) -> list[Any]:
        """Return the schemas of a response, also if the draft refers to a schema instead of a response."""
        if "content" in (whole := self.resolved(response)):
            return [content["schema"] for content in whole["content"].values()]
        return [whole] if "$ref" in response else []


def read_openapi(file: Path, schemas: Path | None = None) -> Described:
    """Read an OpenAPI document. Its references lead into the JSON of ``schemas``, or into the document itself."""
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    operations = {
        (method, path): item[method] for path, item in document["paths"].items() for method in METHODS if method in item
    }
    target = json.loads(schemas.read_text(encoding="utf-8")) if schemas else document
    return Described(operations=operations, schemas=target)
