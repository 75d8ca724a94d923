"""Read and write messages and CloudEvents of each protocol (protocol bindings)."""
