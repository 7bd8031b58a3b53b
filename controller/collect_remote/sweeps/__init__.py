"""Many profiles: hosts x models x phases, scheduled, journaled, resumable."""
