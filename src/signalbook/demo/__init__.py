"""The main job on real input, for anyone to run: definitions, traffic with seeded faults, and the check."""

from signalbook.demo.results import DemoFailed
from signalbook.demo.steps import run

__all__ = ["DemoFailed", "run"]
