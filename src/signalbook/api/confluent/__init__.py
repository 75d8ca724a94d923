"""The Confluent-compatible API: another view of the schemas in the registry."""
