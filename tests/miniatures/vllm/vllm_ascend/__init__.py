"""The miniature's plug-in for Ascend devices."""
