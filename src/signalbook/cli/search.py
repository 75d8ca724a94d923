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

_PAGE_HITS: Final = 100
_LIMIT: Final = 20


def _build_facet_option(name: str, description: str) -> Any:
    return Option(f"--{name}", metavar=name.upper(), help=f"Only {description}; repeatable.")


def run(
    text: Annotated[list[str] | None, Argument(metavar="TEXT", help="Words, field:NAME, name:WORD; -WORD.")] = None,
    type: Annotated[list[str] | None, _build_facet_option("type", "of this type, such as schemas")] = None,
    group: Annotated[list[str] | None, _build_facet_option("group", "in this group, such as /schemagroups/g")] = None,
    format: Annotated[list[str] | None, _build_facet_option("format", "in this format, such as avro")] = None,
    protocol: Annotated[list[str] | None, _build_facet_option("protocol", "with this protocol, such as kafka")] = None,
    envelope: Annotated[list[str] | None, _build_facet_option("envelope", "with this envelope")] = None,
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
    filters = {"type": type, "group": group, "format": format, "protocol": protocol, "envelope": envelope}
    options: SearchOptions = {"versions": versions, "limit": min(limit, _PAGE_HITS)}
    facets: SearchOptions = {name: values for name, values in filters.items() if values}  # type: ignore[assignment]  # keys
    options |= facets
    if deprecated is not None:
        options["deprecated"] = deprecated
    query = " ".join(text or ())

    def remote(client: Client) -> JSONObject:
        result = client.search(query, **options)
        return {
            "count": result.count,
            "complete": result.complete,
            "hits": list(islice(result, limit)),
            "facets": result.facets,
        }

    def local(engine: Engine, _: object) -> JSONObject:
        return _search(engine, query, options, limit)

    with open_part(server, db, remote=remote, local=local, create=False) as result:
        if json:
            print_json(result)
        else:
            _print_hits(result)


def _search(engine: Engine, query: str, options: SearchOptions, limit: int) -> JSONObject:
    from signalbook.engine.search.query import QueryError, parse_query
    from signalbook.engine.search.search import FACETS, Search

    try:
        parsed = parse_query(query)
    except QueryError as error:
        raise typer.BadParameter(f"{query!r} cannot be read: {error}", param_hint="TEXT") from None
    search = Search(
        query=parsed,
        facets={name: tuple(values) for name, values in options.items() if name in FACETS},  # type: ignore[arg-type]  # lists
        deprecated=options.get("deprecated"),
        versions=options.get("versions", False),
        limit=limit,
    )
    with engine.reading() as view:
        page = view.search(search).to_json()
    facets = {name: {row["value"]: row["count"] for row in values} for name, values in page["facets"].items()}
    return {**page, "facets": facets}


def _print_hits(result: JSONObject) -> None:
    for hit in result["hits"]:
        name = f"  {plain(hit['name'])}" if hit["name"] else ""
        marked = "  (deprecated)" if hit["deprecated"] else ""
        echo(f"{hit['xid']}{name}{marked}")
        for snippet in hit["snippets"]:
            if snippet["path"] in ("id", "xid", "name"):
                continue
            about = "" if snippet["text"] == snippet["path"] else f": {plain(snippet['text'])}"
            of = f" of {snippet['schema']}" if "schema" in snippet else ""
            echo(f"    {snippet['kind']} {plain(snippet['path'])}{of}{about}")
    count = f"{result['count']}" if result["complete"] else f"more than {result['count']}"
    shown_count = f", {len(result['hits'])} shown" if len(result["hits"]) < result["count"] else ""
    say(f"{count} found{shown_count}")
