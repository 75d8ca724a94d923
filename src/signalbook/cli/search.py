"""``signalbook search``: entities by words."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer import Argument, Option

from signalbook.cli.console import echo, plain, print_json, say
from signalbook.cli.registry import DbOption, JsonOption, ServerOption, open_part
from signalbook.values import JSONObject

if TYPE_CHECKING:
    from signalbook.client import Client
    from signalbook.client.client import SearchOptions
    from signalbook.engine.engine import Engine

_PAGE: Final = 100
_LIMIT: Final = 20


def _facet(name: str, what: str) -> Any:
    return Option(f"--{name}", metavar=name.upper(), help=f"Only {what}; repeatable.")


def run(
    text: Annotated[list[str] | None, Argument(metavar="TEXT", help="Words, field:NAME, name:WORD; -WORD.")] = None,
    type: Annotated[list[str] | None, _facet("type", "of this type, such as schemas")] = None,
    group: Annotated[list[str] | None, _facet("group", "in this group, such as /schemagroups/g")] = None,
    format: Annotated[list[str] | None, _facet("format", "in this format, such as avro")] = None,
    protocol: Annotated[list[str] | None, _facet("protocol", "with this protocol, such as kafka")] = None,
    envelope: Annotated[list[str] | None, _facet("envelope", "with this envelope")] = None,
    deprecated: Annotated[
        bool | None, Option("--deprecated/--not-deprecated", help="Only what is deprecated, or is not.")
    ] = None,
    versions: Annotated[
        bool, Option("--versions", help="Look at all versions, not at the default ones alone.")
    ] = False,
    limit: Annotated[int, Option("--limit", min=1, help="Show no more.")] = _LIMIT,
    server: ServerOption = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Find entities by words in their ids, names, descriptions and labels, and by fields of their schemas.

    All words have to match, each as the beginning of a word. "A phrase in quotes" matches as it is, field:customer_id a
    field of that name, field:cust* one that begins so, and -word keeps out what has it (behind --, as options have the
    same dash).
    """
    given = {"type": type, "group": group, "format": format, "protocol": protocol, "envelope": envelope}
    options: SearchOptions = {"versions": versions, "limit": min(limit, _PAGE)}
    facets: SearchOptions = {name: values for name, values in given.items() if values}  # type: ignore[assignment]  # keys
    options |= facets
    if deprecated is not None:
        options["deprecated"] = deprecated
    query = " ".join(text or ())

    def remote(client: Client) -> JSONObject:
        found = client.search(query, **options)
        return {
            "count": found.count,
            "complete": found.complete,
            "hits": list(islice(found, limit)),
            "facets": found.facets,
        }

    def local(engine: Engine, _: object) -> JSONObject:
        return _search(engine, query, options, limit)

    with open_part(server, db, remote=remote, local=local, create=False) as found:
        if json:
            print_json(found)
        else:
            _show(found)


def _search(engine: Engine, query: str, options: SearchOptions, limit: int) -> JSONObject:
    from signalbook.engine.search.finding import FACETS, Search
    from signalbook.engine.search.query import QueryError, parse_query

    try:
        parsed = parse_query(query)
    except QueryError as error:
        raise typer.BadParameter(f"{query!r} cannot be read: {error}", param_hint="TEXT") from None
    wanted = Search(
        query=parsed,
        facets={name: tuple(values) for name, values in options.items() if name in FACETS},  # type: ignore[arg-type]  # lists
        deprecated=options.get("deprecated"),
        versions=options.get("versions", False),
        limit=limit,
    )
    with engine.reading() as view:
        page = view.search(wanted).to_json()
    facets = {name: {each["value"]: each["count"] for each in values} for name, values in page["facets"].items()}
    return {**page, "facets": facets}


def _show(found: JSONObject) -> None:
    for hit in found["hits"]:
        named = f"  {plain(hit['name'])}" if hit["name"] else ""
        marked = "  (deprecated)" if hit["deprecated"] else ""
        echo(f"{hit['xid']}{named}{marked}")
        for snippet in hit["snippets"]:
            if snippet["path"] in ("id", "xid", "name"):
                continue
            about = "" if snippet["text"] == snippet["path"] else f": {plain(snippet['text'])}"
            of = f" of {snippet['schema']}" if "schema" in snippet else ""
            echo(f"    {snippet['kind']} {plain(snippet['path'])}{of}{about}")
    count = f"{found['count']}" if found["complete"] else f"more than {found['count']}"
    shown = f", {len(found['hits'])} shown" if len(found["hits"]) < found["count"] else ""
    say(f"{count} found{shown}")
