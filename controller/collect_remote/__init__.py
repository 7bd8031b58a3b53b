"""Collect torch_npu profiles from remote Huawei Ascend hosts over SSH, verified."""

__version__ = "0.1.0"
