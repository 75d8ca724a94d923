"""Deliver committed changes from the outbox to subscribers as CloudEvents."""
