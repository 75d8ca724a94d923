"""Convert between Message Catalog documents of both drafts and message groups, and check them by metaschemas.

``definitions`` has the functions for the APIs. ``conversion`` converts definitions to messages and back.
docs/message-catalog.md describes the mapping.
"""
