"""The CNCF drafts (Schema Registry 0.2, Message Catalog): their documents, ids and URIs, and their mapping to entities."""
