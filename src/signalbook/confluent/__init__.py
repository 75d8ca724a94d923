"""Map the Confluent-compatible API to the registry: names, schemas, settings and errors, without I/O."""
