"""Ways messages lie in files."""
