#!/bin/bash
NPUS_PER_NODE=${NPUS_PER_NODE:-1}
DISTRIBUTED_ARGS="--nproc_per_node $NPUS_PER_NODE --nnodes 1 --master_port $((10000 + $$ % 20000))"

python3 -m torch.distributed.run $DISTRIBUTED_ARGS train_fsdp2.py \
    examples/fsdp2/llama/llama.yaml
