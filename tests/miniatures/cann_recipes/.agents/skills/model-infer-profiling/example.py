"""How to profile; nothing here is run by anybody."""

import torch_npu

prof = torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("./prof"))
prof.start()
prof.step()
