"""Programs that run on the simulated host, with its own Python (3.8 to 3.13, standard library only)."""
