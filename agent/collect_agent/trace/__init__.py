"""`trace_view.json`: proved a complete JSON list, event by event, on every core, in constant memory.

The file is written in two stages: the framework's part without its closing bracket, then the device part
appended. A parse that failed half-way therefore leaves a file that viewers open without complaint. Only
decoding it to the bracket tells, and the file may be far larger than memory.

Nothing is imported here: a helper process (`part`) is to be small.
"""
