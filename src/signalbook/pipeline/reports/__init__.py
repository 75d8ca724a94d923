"""The results of batches: reports, metrics, and their upload to a registry."""
