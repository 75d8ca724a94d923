"""The producers' side: messages made of definitions, and held to them before they are sent (domain.md K.10)."""
