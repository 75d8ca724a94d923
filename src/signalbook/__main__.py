"""Run the command line with ``python -m signalbook``."""

from signalbook.cli import main

main()
