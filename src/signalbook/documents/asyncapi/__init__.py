"""AsyncAPI documents, 2.0 to 2.6 and 3.0, as definitions: messages, their schemas, and endpoints."""
