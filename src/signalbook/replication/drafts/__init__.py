"""Registries that speak a draft, as sources and as targets of copies (D-3 to D-9, D-17)."""
