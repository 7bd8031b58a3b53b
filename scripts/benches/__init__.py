"""The benchmarks: one module each, whose `run` gives its tables as Markdown."""
