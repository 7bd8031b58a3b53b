import argparse

from mindspeed_llm.toy import Job
from mindspeed_mm.tools.profiler import Profiler

if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--train-iters", type=int, required=True)
    parser.add_argument("--mm-tool", required=True)
    args = parser.parse_args()
    job = Job()
    profiler = Profiler(args.mm_tool, job.rank)
    profiler.start()
    for iteration in range(args.train_iters):
        job.train_step(iteration)
        profiler.step()
    profiler.stop()
    job.close()
