"""Infer message definitions and schemas from messages that nobody has defined yet.

Workers summarize the messages (``summaries.py``, ``observations.py``), and the driver turns the summaries into
definitions and schemas (``definitions.py``, ``schemas.py``). The command itself is ``commands/infer.py``.
"""
