"""Use registries with an API of the CNCF drafts as sources and targets of replication (D-3 to D-9, D-17)."""
