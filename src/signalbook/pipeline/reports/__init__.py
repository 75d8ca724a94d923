"""Send the reports of batches to a registry, and count them in metrics."""
