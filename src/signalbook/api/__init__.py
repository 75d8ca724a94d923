"""The HTTP APIs: requests become commands and views of the engine, results become responses."""
