"""Enumerate the paths of an application from its own route tables, so that a new route is crawled without being listed.

A path with a placeholder that has no value in a `Binding`, and a route that takes any path and has no table of the
paths below it, raise `KeyError`: a test that crawls fails until somebody says what the new route is about.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from starlette.applications import Starlette

from signalbook.api.confluent import routes as confluent
from signalbook.api.messagecatalog import first_draft, v01
from signalbook.api.messagecatalog.catalog import FIRST, V01
from signalbook.api.registrypaths import NAMES
from signalbook.api.schemaregistry import MOUNT as SCHEMA_REGISTRY
from signalbook.api.schemaregistry import ROUTES as SCHEMA_REGISTRY_ROUTES
from signalbook.model import Model

READ_METHODS: Final = ("GET", "HEAD", "OPTIONS")
WRITE_METHODS: Final = ("POST", "PUT", "PATCH", "DELETE")
ANY_PATH: Final = "/{path:any}"
SHORT_PATH: Final = "/~{}"
_PLACEHOLDER: Final = re.compile(r"{\w*}")

Binding = Mapping[str, str]
"""Values of placeholders by the segment in front of them, such as ``schemagroups`` in ``/schemagroups/{}``."""


def enumerate_paths(app: Starlette, model: Model) -> list[str]:
    """Return the templates of all paths of ``app``; ``{}`` and ``{name}`` are placeholders."""
    paths = [*(f"/{name}" for name in NAMES), *_entity_paths(model), SHORT_PATH]
    tables = _tables_below(model)
    for route in app.routes:
        path: str = getattr(route, "path")  # noqa: B009  Starlette's BaseRoute has no path
        if path.endswith(ANY_PATH):
            prefix = path.removesuffix(ANY_PATH)
            paths += [f"{prefix}{below}" for below in tables[prefix]()]
        else:
            paths.append(path)
    # Paths with and without a trailing slash have the same endpoint.
    return list(dict.fromkeys(path.rstrip("/") or "/" for path in paths))


def fill_path(template: str, binding: Binding) -> str:
    """Replace each placeholder by the value that ``binding`` has for the segment in front of it.

    The value of a placeholder behind another placeholder has the name of that segment and a plus sign.
    """
    segments: list[str] = []
    name = ""
    for segment in template.split("/"):
        placeholder = _PLACEHOLDER.search(segment)
        if placeholder is None:
            name = segment
        else:
            name = segment.partition("{")[0] or name
            segment = segment.replace(placeholder[0], binding[name])
            name = f"{name}+"
        segments.append(segment)
    return "/".join(segments)


def _tables_below(model: Model) -> dict[str, Callable[[], list[str]]]:
    """Return the tables of paths below each mount that takes any path."""
    entities = list(_entity_paths(model))
    tables: dict[str, Callable[[], list[str]]] = {
        prefix: lambda: entities
        for prefix in ("/check", "/ui", "/ui/-/edit", "/ui/-/impact", "/ui/-/relations", "/ui/-/try")
    }
    tables[SCHEMA_REGISTRY] = lambda: list(SCHEMA_REGISTRY_ROUTES)
    tables[FIRST] = lambda: list(first_draft.ROUTES)
    tables[V01] = lambda: list(v01.ROUTES)
    operations = ["".join(f"/{word}" for word in words) for words in confluent.ROUTES]
    in_context = [f"/contexts/{{}}{path}" for path in operations if path]
    tables |= {mount: lambda: [*operations, *in_context] for mount in confluent.MOUNTS}
    return tables


def _entity_paths(model: Model) -> Iterator[str]:
    """Yield the paths of entities and collections that the model makes."""
    yield "/"
    for groups, group_type in model.groups.items():
        yield from (f"/{groups}", f"/{groups}/{{}}")
        for resources, resource_type in group_type.resources.items():
            resource = f"/{groups}/{{}}/{resources}/{{}}"
            yield from (f"/{groups}/{{}}/{resources}", resource, f"{resource}/meta")
            yield from (f"{resource}/versions", f"{resource}/versions/{{}}")
            if resource_type.hasdocument:
                yield from (f"{resource}$details", f"{resource}/versions/{{}}$details")


def read_parameters(openapi: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of the query parameters of each path that can be read, by its template with ``{}``."""
    shared = openapi["components"]["parameters"]
    parameters: dict[str, list[str]] = {}
    for path, item in openapi["paths"].items():
        stated = (*item.get("parameters", ()), *item.get("get", {}).get("parameters", ()))
        resolved = (
            parameter if "name" in parameter else shared[parameter["$ref"].rpartition("/")[2]] for parameter in stated
        )
        parameters[normalise_path(path)] = [parameter["name"] for parameter in resolved if parameter["in"] == "query"]
    return parameters


def normalise_path(template: str) -> str:
    """Return the template with placeholders without names."""
    return _PLACEHOLDER.sub("{}", template)
