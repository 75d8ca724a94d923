"""The APIs of the two Message Catalog drafts."""

from signalbook.api.messagecatalog.routes import routes

__all__ = ["routes"]
