"""Copy between registries with Confluent's API."""
