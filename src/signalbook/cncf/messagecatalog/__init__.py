"""Message Catalog, both drafts: documents and metaschemas, and how they and message groups become each other.

``definitions`` has what the APIs use, ``conversion`` makes messages of definitions and definitions of messages;
docs/message-catalog.md tells what becomes of what.
"""
