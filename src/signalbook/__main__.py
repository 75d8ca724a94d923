"""``python -m signalbook``."""

from signalbook.cli import main

main()
