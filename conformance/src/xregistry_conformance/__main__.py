"""``python -m xregistry_conformance``."""

from xregistry_conformance.command import main

main()
