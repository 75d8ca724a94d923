"""What became of batches: reports, metrics, and their upload to a registry."""
