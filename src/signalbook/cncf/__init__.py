"""The CNCF drafts (Schema Registry 0.2, Message Catalog): documents, ids, URIs, and how entities map to them."""
