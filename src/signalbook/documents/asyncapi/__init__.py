"""Convert AsyncAPI documents, 2.0 to 2.6, 3.0 and 3.1, to definitions: messages, their schemas, and endpoints."""
