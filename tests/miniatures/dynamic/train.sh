#!/bin/sh
# A job that can be profiled while it runs: torch_npu looks at the file in $PROF_CONFIG_PATH.
here=$(cd "$(dirname "$0")" && pwd)
export PROF_CONFIG_PATH="${PROF_CONFIG_PATH:-$here/prof_config}"
mkdir -p "$PROF_CONFIG_PATH"
exec python3 "$here/train.py" "$@"
