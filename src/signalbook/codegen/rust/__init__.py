"""Rust made of definitions."""
