"""The door of the Schema Registry draft 0.2: it translates requests and answers, over one registry."""

from signalbook.api.schemaregistry.door import routes

__all__ = ["routes"]
