"""Map entities to the CNCF drafts (Schema Registry 0.2, Message Catalog): documents, ids and URIs."""
