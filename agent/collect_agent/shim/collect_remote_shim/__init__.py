"""The parts of the start-up shim; what is not needed at start-up is imported when torch_npu.profiler is."""
