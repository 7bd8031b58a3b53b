"""The command line: Megatron's options as far as a toy has them, and the profiling feature's."""

import argparse


def parse_args():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--train-iters", type=int, required=True)
    parser.add_argument("--micro-batch-size", type=int, default=1)
    parser.add_argument("--seq-length", type=int, default=4096)
    parser.add_argument("--save-interval", type=int, default=None)
    parser.add_argument("--load-iteration", type=int, default=0)  # what a checkpoint would say
    add_profile_args(parser.add_argument_group("profile"))
    args = parser.parse_args()
    if args.profile and args.profile_step_start < 1:
        raise ValueError("profile-step-start must be greater than or equal to 1")
    return args


def add_profile_args(group):
    group.add_argument("--profile", action="store_true")
    group.add_argument("--profile-step-start", type=int, default=10)
    group.add_argument("--profile-step-end", type=int, default=12)
    group.add_argument("--profile-ranks", nargs="+", type=int, default=[0])
    group.add_argument("--profile-level", default="level0", choices=["level_none", "level0", "level1", "level2"])
    group.add_argument("--profile-with-cpu", action="store_true")
    group.add_argument("--profile-with-stack", action="store_true")
    group.add_argument("--profile-with-memory", action="store_true")
    group.add_argument("--profile-record-shapes", action="store_true")
    group.add_argument("--profile-data-simplification", action="store_true")
    group.add_argument("--profile-export-type", default="text", choices=["text", "db"])
    group.add_argument("--profile-save-path", default="./profile_dir")
