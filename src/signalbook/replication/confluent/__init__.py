"""Registries that speak Confluent's API, as ends of replication."""
