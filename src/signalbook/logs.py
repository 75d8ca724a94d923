"""The log of a server: lines for people, or JSON for what collects logs."""

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
    """Write what is of this ``level`` or above to standard error, as text or as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter(_LINE_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
    if level != "DEBUG":
        # It names every request: to a registry that is followed, one a second for ever.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        # It names every migration, and a new database has all of them.
        logging.getLogger("alembic").setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """A line for people. Messages may quote clients: they stay on one line and do not control a terminal."""

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
        """The line."""
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
