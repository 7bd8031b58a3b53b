#!/bin/bash
NPUS_PER_NODE=${NPUS_PER_NODE:-1}
MM_TOOL="mindspeed_mm/tools/tools.json"

MM_ARGS="
    --mm-tool $MM_TOOL \
    --train-iters 20
"

python3 -m torch.distributed.run --nnodes=1 --nproc-per-node=$NPUS_PER_NODE \
    --master-port=$((10000 + $$ % 20000)) pretrain_vlm.py $MM_ARGS
