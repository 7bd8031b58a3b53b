"""One rank of a job that trains: a linear model with its gradient written out, and ranks that wait for each other."""

import os

import torch


class Job:
    """The process group, the device and the weights of this rank."""

    WIDTH = 64

    def __init__(self):
        self.rank, self.world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self.grouped = self.world > 1 and torch.distributed.is_available()
        if self.grouped:
            torch.distributed.init_process_group("gloo")
        self.device = f"npu:{os.environ.get('LOCAL_RANK', '0')}"
        torch.npu.set_device(self.device)
        self.input = torch.ones(32, self.WIDTH, device=self.device)
        self.target = torch.ones(32, self.WIDTH, device=self.device)
        self.weight = torch.zeros(self.WIDTH, self.WIDTH, device=self.device)

    def train_step(self, iteration):
        if os.environ.get("MINDSPEED_CRASH_RANK") == str(self.rank) and iteration == 3:
            raise RuntimeError("HCCL function error: HcclAllReduce, error code is 6")
        difference = self.input @ self.weight - self.target
        gradient = self.input.t() @ difference
        self.weight = self.weight - 0.001 * gradient
        torch.npu.synchronize()
        if self.grouped and hasattr(torch.distributed, "barrier"):
            torch.distributed.barrier()

    def close(self):
        if self.grouped:
            torch.distributed.destroy_process_group()
