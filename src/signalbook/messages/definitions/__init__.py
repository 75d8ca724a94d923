"""Normalise, complete, check and compile message definitions; check endpoints."""
