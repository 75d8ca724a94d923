"""Protocol bindings: how each protocol carries messages and CloudEvents."""
