"""Definitions held against streams of messages, on Spark."""
