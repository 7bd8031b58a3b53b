"""The command line: what may be asked (`arguments`), what is done then (`commands`), how it is shown. No logic."""
