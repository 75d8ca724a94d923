"""NATS: a connection, and what streams of JetStream hold."""
