"""The main job on real input, for anyone to run: definitions, traffic with seeded faults, and the check."""
