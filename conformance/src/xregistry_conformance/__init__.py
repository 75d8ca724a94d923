"""A conformance kit for any xRegistry 1.0-rc4 server, over HTTP: cases as data, a runner, reports.

It knows a server by its URL alone.
"""

__version__ = "0.1.0"
