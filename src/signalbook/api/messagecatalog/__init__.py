"""The doors of the two Message Catalog drafts: they translate requests and answers, over one registry."""

from signalbook.api.messagecatalog.door import routes

__all__ = ["routes"]
