"""Documents with the names, shapes and slips of other days, put right in the open (docs/documents.md, "Repairs")."""

from signalbook.documents.lenient.walk import modernise

__all__ = ["modernise"]
