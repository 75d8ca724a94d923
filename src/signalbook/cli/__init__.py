"""The command line. Each command imports what it needs when it runs, so that the line itself comes up at once."""

from signalbook.cli.app import main

__all__ = ["main"]
