"""Message catalogs of both drafts: their documents and metaschemas, and how they and message groups become each other.

``definitions`` and ``groups`` are what the doors use; docs/message-catalog.md tells what becomes of what.
"""
