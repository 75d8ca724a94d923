"""The registry itself: executes each command in one transaction and records its changes.

Independent of HTTP and SQL.
"""
