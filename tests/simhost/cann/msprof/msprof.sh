#!/bin/sh
# CANN's front end of the analysis: finds its Python part next to itself, wherever the toolkit is linked to.
here=$(dirname "$(readlink -f "$0")")
exec python3 -E -S "$here/../profiler_tool/analysis/msprof/msprof.py" "$@"
