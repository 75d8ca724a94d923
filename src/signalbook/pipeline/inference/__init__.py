"""Definitions inferred from messages: what a stream holds that nobody has written down yet.

Workers summarize what they see (``summaries.py``, ``observations.py``), and the driver turns it into definitions and
schemas (``definitions.py``, ``schemas.py``). The command itself is ``commands/infer.py``.
"""
