"""Streams: micro-batches one after the other, each landed like a batch of its own."""
