from __future__ import annotations
from collections.abc import Callable
from harness import Tool
from simhost import SimHost
def test_show(host, tool: Tool) -> None:
    tool.inventory(host())
    import time
    t=time.time()
    o = tool("doctor", "--host", "ascend01")
    print(o.out, o.err, o.status, time.time()-t)
    o = tool("doctor", "--host", "ascend01", "--json", "--model", "llama")
    print(o.out[-2500:])
    assert 0
