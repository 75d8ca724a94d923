"""What the doors of all drafts have in common: how a request is read, and run in the right place."""
