"""The producers' side: messages made of definitions, and held to them before they are sent (K.10)."""
