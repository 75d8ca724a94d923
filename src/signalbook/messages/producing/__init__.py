"""Build messages from definitions, and check them before they are sent (K.10)."""
