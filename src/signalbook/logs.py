"""Configure the log of a server, as lines of text for people or as JSON lines for log collectors."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Final

from signalbook.terminal import strip_controls
from signalbook.tracing import correlationid
from signalbook.values import JSONObject, dump_json

FORMATS: Final = ("text", "json")
_LINE_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def begin_log(level: str, form: str = "text") -> None:
    """Write log records of this ``level`` or above to standard error. ``form`` is ``text`` or ``json``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter(_LINE_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
    if level != "DEBUG":
        # httpx logs every request, and following a registry makes one request per second.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        # alembic logs every migration, and a new database runs all migrations.
        logging.getLogger("alembic").setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """A formatter of lines for people.

    Messages may contain text of clients. So each message is put on one line, without terminal control characters.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line without the traceback."""
        record.message = " ".join(record.message.splitlines())
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback if there is one."""
        return strip_controls(super().format(record))


class JsonFormatter(logging.Formatter):
    """A formatter of one JSON object per line: time, level, logger, message, and trace and exception if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line: JSONObject = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        trace, _, span = correlationid().partition("-")
        if trace:
            line |= {"trace_id": trace, "span_id": span}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return dump_json(line).decode()
