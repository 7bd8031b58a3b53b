#!/bin/bash
# More arguments can be given: bash pretrain_llama_args.sh --train-iters 100
NPUS_PER_NODE=${NPUS_PER_NODE:-1}
python3 -m torch.distributed.run --nnodes=1 --nproc-per-node=$NPUS_PER_NODE \
    --master-port=$((10000 + $$ % 20000)) pretrain_gpt.py --train-iters ${TRAIN_ITERS:-30} "$@"
