"""The explorer: pages for people, below ``/ui`` (docs/ui.md)."""
