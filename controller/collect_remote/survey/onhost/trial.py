"""The doctor's program: import torch_npu in a process of its own, in the environment that a run would have.

Arguments: the mark of our lines, and the seconds it may take.
"""

import json
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collect_agent.npu.look import _answer, _start, clock

    from .reader import lead_own_group, leave_with_reader

# torch loads torch_npu by itself and wraps what goes wrong there in a RuntimeError.
IMPORT = """
import sys
try:
    import torch, torch_npu
except Exception as error:
    cause = error.__cause__ or error
    sys.exit("collect-remote: {}: {}".format(type(cause).__name__, cause))
print("\\ncollect-remote: imported {} {}".format(torch.__version__, torch_npu.__version__))
"""
LONGEST = 8000  # characters of its output


def main(mark, seconds):
    # type: (str, str) -> None
    lead_own_group()
    leave_with_reader()
    begun = clock()
    process = _start([sys.executable, "-c", IMPORT], dict(os.environ), [])
    status, text = _answer(process, begun + float(seconds)) if process else (126, "")
    told = {"status": status, "seconds": round(clock() - begun, 3), "text": text[-LONGEST:]}
    sys.stdout.write("\n" + mark + "trial " + json.dumps(told) + "\n")
    sys.stdout.flush()
    os.killpg(0, signal.SIGKILL)  # and whatever the import has started


if __name__ == "__main__":
    main(*sys.argv[1:])
