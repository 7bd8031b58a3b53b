"""A YAML file of sections, and `--section.name value` on top of it."""

import yaml

DEFAULTS = {
    "max_steps": 20,
    "profile": False,
    "profile_step_start": 0,
    "profile_step_end": -1,
    "profile_ranks": [-1],
    "profile_level": "level0",
    "profile_with_cpu": False,
    "profile_export_type": "text",
    "profile_save_path": "./profile",
}


def parse_args(argv):
    """The section `training`: the defaults, what the file says, what the command line says."""
    file, *rest = argv
    with open(file) as opened:
        training = {**DEFAULTS, **(yaml.safe_load(opened).get("training") or {})}
    while rest:
        option, *rest = rest
        section, _, name = option.partition(".")
        if section != "--training" or name not in DEFAULTS:
            raise SystemExit(f"error: unrecognized arguments: {option}")
        count = next((at for at, word in enumerate(rest) if word.startswith("--")), len(rest))
        words, rest = rest[:count], rest[count:]
        values = [yaml.safe_load(word) for word in words]
        training[name] = values if name == "profile_ranks" else values[0]
    return training
