"""The main job on real input, for anyone to run: catalogues, traffic with seeded faults, and the check."""
