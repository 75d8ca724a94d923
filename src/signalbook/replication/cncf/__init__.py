"""Registries that speak a CNCF draft, as ends of replication (D-3 to D-9, D-17)."""
