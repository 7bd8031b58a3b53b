"""Which NPUs a host has, and which of them may be used: text of npu-smi in, devices and verdicts out.

    look.look() -> interpret.interpret() -> judge.judge() -> choice.groups()      (in a container: inside.judge_for())

All of that but `look` is pure, and the controller uses it too: for saved texts, and to say beforehand what a run would
get. On the host, `acquire` chooses, takes the `lease` of each and looks again; `presence` tells who is on them later.
"""
