"""From what the profiler wrote to one archive.

harvest, parsed              find what was written; whether it is parsed
parse, elsewhere             the parser in a process of its own; on another file system
manifest                     what a profile says about itself
pack, archive, tarstream     one pass out, one pass back in
"""
