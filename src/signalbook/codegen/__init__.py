"""Files made of definitions: tables, documents, code. ``base.py`` has the contract of what makes them."""
