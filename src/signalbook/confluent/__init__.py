"""The Confluent-compatible API in terms of the registry: names, schemas, settings and errors, as values."""
