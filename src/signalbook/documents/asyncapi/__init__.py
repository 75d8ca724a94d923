"""AsyncAPI documents, 2.0 to 2.6 and 3.0, as definitions: messages, their schemas, and endpoints.

Whatever reads a document asks ``is_asyncapi``; what converts one, in the modules of this package, is imported with the
first that is.
"""

from __future__ import annotations

from signalbook.values import JSON


def is_asyncapi(document: JSON) -> bool:
    """Whether a document says that it is AsyncAPI's."""
    return isinstance(document, dict) and "asyncapi" in document and "registryid" not in document
