"""Deliver committed changes to the sinks of subscriptions: in order and at least once.

Sinks do not block each other.
"""
