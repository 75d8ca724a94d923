"""Quote names and texts for statements of Spark SQL.

Spark replaces ``${env:NAME}``, ``${system:NAME}`` and ``${name}`` everywhere in a statement, including string literals
and quoted names, by variables of its process (``spark.sql.variable.substitute``, on by default). Names and texts from
definitions must therefore never appear with ``${`` in a statement.
"""

from __future__ import annotations

import re
from typing import Final

from signalbook.pipeline.table_names import quote_name

# ``${`` begins a variable that Spark substitutes. Shells of Spark before 4.0 end a statement at ``;`` even in a quoted
# name, and split it at control characters such as line feeds.
_UNSAFE_IN_QUOTED_NAME: Final = re.compile(r"\$\{|;|[\x00-\x1f\x7f]")
_BMP_END: Final = 0xFFFF


def quote_identifier(name: str) -> str:
    """Return the name of a column or member as an identifier.

    Quoted names have no escapes. An unsafe name therefore becomes a string literal in an ``IDENTIFIER`` clause, which
    Spark accepts in expressions since 3.4 and in column definitions since 4.1.
    """
    if _UNSAFE_IN_QUOTED_NAME.search(name):
        return f"IDENTIFIER({quote_string(quote_name(name))})"
    return quote_name(name)


def quote_string(text: str) -> str:
    """Return a string literal whose value is exactly ``text``, written on one line with printable characters."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "$\\{")
    return f"'{''.join(map(_escape_unprintable, escaped))}'"


def _escape_unprintable(char: str) -> str:
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) <= _BMP_END else f"\\U{ord(char):08x}"
