"""The description of this registry's APIs in OpenAPI 3.1, made from its model."""
