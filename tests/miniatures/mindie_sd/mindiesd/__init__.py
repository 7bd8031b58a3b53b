"""A stand-in with the shape of MindIE-SD."""
