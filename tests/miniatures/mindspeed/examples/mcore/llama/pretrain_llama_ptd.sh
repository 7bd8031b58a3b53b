#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
export HCCL_CONNECT_TIMEOUT=1800

NPUS_PER_NODE=2
MASTER_PORT=$((10000 + $$ % 20000))

DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS_PER_NODE \
    --nnodes 1 \
    --master_addr 127.0.0.1 \
    --master_port $MASTER_PORT
"

GPT_ARGS="
    --micro-batch-size 1 \
    --seq-length 32 \
    --train-iters 30
"

OUTPUT_ARGS="
    --save-interval 10000
"

mkdir -p logs
# pretrain_gpt.py takes its arguments from the lists above
python3 -m torch.distributed.run $DISTRIBUTED_ARGS pretrain_gpt.py \
    $GPT_ARGS \
    $OUTPUT_ARGS \
    2>&1 | tee logs/train_llama.log
