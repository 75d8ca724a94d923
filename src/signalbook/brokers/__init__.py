"""Clients of message brokers: Kafka, MQTT, NATS and AMQP 1.0. Sinks and sources use the same clients."""
