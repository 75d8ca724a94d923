"""Names and texts in statements of Spark SQL.

Spark replaces ``${env:NAME}``, ``${system:NAME}`` and ``${name}`` everywhere in a statement, in texts and quoted names
too, by a variable of the process that runs it (``spark.sql.variable.substitute``, on by default). A name or text that
comes from a definition must therefore never contain ``${`` in a statement.
"""

from __future__ import annotations

import re
from typing import Final

from signalbook.pipeline.tables.table_names import quote_name

# Spark substitutes the first. Shells of Spark before 4.0 end a statement at the second, even in a quoted name, and read
# the lines of the third one by one.
_UNSAFE_IN_QUOTED_NAME: Final = re.compile(r"\$\{|;|[\x00-\x1f\x7f]")
_BMP_END: Final = 0xFFFF


def quote_identifier(name: str) -> str:
    """Return a column or member name as an identifier.

    Quoted names have no escapes. An unsafe name is written as a text in an ``IDENTIFIER`` clause, which Spark reads in
    expressions since 3.4 and in definitions of columns since 4.1.
    """
    if _UNSAFE_IN_QUOTED_NAME.search(name):
        return f"IDENTIFIER({quote_string(quote_name(name))})"
    return quote_name(name)


def quote_string(text: str) -> str:
    """Return a string literal of exactly ``text``, on one line of printable characters."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "$\\{")
    return f"'{''.join(map(_escape_unprintable, escaped))}'"


def _escape_unprintable(char: str) -> str:
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) <= _BMP_END else f"\\U{ord(char):08x}"
