"""The profiler of a training run, as its arguments say."""

import torch_npu

LEVELS = {"level_none": "Level_none", "level0": "Level0", "level1": "Level1", "level2": "Level2"}


def get_profiler(args, iteration):
    """Not started yet; it counts its steps from the first iteration of this process."""
    profiler = torch_npu.profiler
    activities = [profiler.ProfilerActivity.NPU]
    if args.profile_with_cpu:
        activities.append(profiler.ProfilerActivity.CPU)
    skip_first, warmup = args.profile_step_start - iteration - 2, 1
    if args.profile_step_start == iteration + 1:
        skip_first, warmup = 0, 0
    if skip_first < 0:
        raise ValueError(f"profile-step-start must be greater than the iteration {iteration} of the checkpoint")
    config = profiler._ExperimentalConfig(
        aic_metrics=profiler.AiCMetrics.PipeUtilization,
        profiler_level=getattr(profiler.ProfilerLevel, LEVELS[args.profile_level]),
        export_type=getattr(profiler.ExportType, args.profile_export_type.capitalize()),
        data_simplification=args.profile_data_simplification,
    )
    active = args.profile_step_end - args.profile_step_start
    return profiler.profile(
        with_stack=args.profile_with_stack,
        record_shapes=args.profile_record_shapes,
        profile_memory=args.profile_with_memory,
        activities=activities,
        schedule=profiler.schedule(wait=0, warmup=warmup, active=active, repeat=1, skip_first=skip_first),
        experimental_config=config,
        on_trace_ready=profiler.tensorboard_trace_handler(args.profile_save_path),
    )


def is_profile_enabled(args, rank):
    return args.profile and rank in args.profile_ranks
