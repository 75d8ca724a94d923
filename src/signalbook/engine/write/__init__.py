"""Writing: a command is loaded for (``load``), decided (``decide``) and applied (``apply``)."""
