"""A miniature of verl: its configuration, its roles in processes of their own, its profiler; not its algorithms.

Written from the documented behaviour of verl on Ascend. With Ray where that is installed, else with a stand-in that
keeps Ray's contract for environments. ``releases.py`` has what differs between releases.
"""
