"""Clients of message brokers: Kafka, MQTT, NATS and AMQP 1.0, each with one client for sinks and sources alike."""
