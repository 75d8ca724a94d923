"""One module per ``signalbook pipeline`` command: the driver's and the workers' side, and the result."""
