"""The loop over the iterations."""

from mindspeed_llm.toy import Job
from mindspeed_llm.training.profiling import get_profiler, is_profile_enabled


def pretrain(args):
    job = Job()
    iteration = args.load_iteration
    profiler = get_profiler(args, iteration) if is_profile_enabled(args, job.rank) else None
    if profiler:
        profiler.start()
    while iteration < args.train_iters:
        job.train_step(iteration)
        iteration += 1
        if profiler:
            profiler.step()
        if job.rank == 0:
            print(f" iteration {iteration:8d}/{args.train_iters:8d} |", flush=True)
    if profiler:
        profiler.stop()
    job.close()
