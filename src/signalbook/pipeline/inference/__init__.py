"""Definitions drafted from messages: what a stream holds that nobody has written down yet.

Start reading in ``running.py`` (the driver); ``seen.py`` and ``addresses.py`` are the summaries tasks make.
"""

from signalbook.pipeline.inference.draft import Draft, DraftJob

__all__ = ["Draft", "DraftJob"]
