"""C# made of definitions."""
