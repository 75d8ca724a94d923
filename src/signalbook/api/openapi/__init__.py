"""The API of this registry, as its model makes it, described in OpenAPI 3.1."""
