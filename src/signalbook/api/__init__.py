"""The doors: HTTP translated into commands and views of the engine, and back."""
