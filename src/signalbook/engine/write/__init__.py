"""Writing: a command is loaded (``load``), decided (``decide``) and applied (``apply``)."""
