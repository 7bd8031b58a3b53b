#!/usr/bin/env bash
# Every night: profile the fleet, keep the table, tell what failed. Exits as the sweep does; run again, it goes on.
#   nightly.sh DIRECTORY [OPTIONS OF collect-remote sweep]
set -euo pipefail
directory=$1
shift

if [ -e "$directory/journal.sqlite" ]; then
    set -- --resume
fi
status=0
collect-remote sweep "$@" --dir "$directory" --retry unreachable=3 --max-fail 20% >"$directory.txt" || status=$?

tail -n 1 "$directory.txt"
if [ "$status" -ne 0 ] && [ -e "$directory/sweep.json" ]; then
    python3 - "$directory/sweep.json" <<'PYTHON'
import json, sys
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["state"] != "valid":
        print(cell["key"], cell["state"], (cell["error"] or {}).get("message", ""), sep="\t")
PYTHON
fi
exit "$status"
