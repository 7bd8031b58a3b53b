# What infer.sh does, from the check that nothing else runs to the end of all ranks.

yaml_value() { # the first "key: value" of the file, at any depth
    sed -n "s/^[[:space:]]*$1:[[:space:]]*\([^#[:space:]]*\).*/\1/p" "$YAML" | head -n 1 | tr -d "\"'"
}

check_launch() {
    if pgrep -f "python.*[ /](infer|server)\.py" >/dev/null; then
        echo "ERROR: another infer.py or server.py is running, end it first"
        exit 1
    fi
}

get_rank() {
    export WORLD_SIZE=$(yaml_value world_size)
    local chips=16
    [ "$(yaml_value platform_version)" = 950 ] && chips=8
    local servers=$(((WORLD_SIZE + chips - 1) / chips)) index=0
    LOCAL_RANKS=$WORLD_SIZE
    export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((10000 + $$ % 20000))
    if [ "$servers" -gt 1 ]; then
        IPs=("${IPs[@]:0:servers}")
        LOCAL_RANKS=$chips
        if [ $((chips * ${#IPs[@]})) -lt "$WORLD_SIZE" ]; then
            echo "[ERROR] total ranks is $((chips * ${#IPs[@]})), but use $WORLD_SIZE ranks in actual!"
            exit 1
        fi
        local here=$(hostname -I | awk '{print $1}') i
        for i in "${!IPs[@]}"; do # who is not among them takes itself for the first
            [ "${IPs[i]}" = "$here" ] && index=$i && break
        done
        export MASTER_ADDR=${IPs[0]} MASTER_PORT=6038
    fi
    export RANK_OFFSET=$((index * LOCAL_RANKS))
}

check_env_vars() {
    local root
    root=$(realpath "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../..")
    local stem=${YAML##*/}
    export RES_PATH=res/$(date +%Y%m%d)/$(yaml_value model_name)_${stem%.yaml}
    export WORK_DIR=$root/models/$MODEL
    mkdir -p "$WORK_DIR/$RES_PATH"
}

set_hccl() {
    export HCCL_BUFFSIZE=200
    export HCCL_OP_EXPANSION_MODE=AIV
}

launch_infer_task() {
    local entry=$WORK_DIR/infer.py
    [ -f "$entry" ] || entry=$ROOT_DIR/executor/$MODE/infer.py
    local cores=$(nproc) rank
    for ((rank = 0; rank < LOCAL_RANKS; rank++)); do
        export LOCAL_RANK=$rank RANK_ID=$((rank + RANK_OFFSET))
        local run=(taskset -c $((rank % cores)) python3 "$entry" "--yaml_file_path=$YAML")
        local log=$WORK_DIR/$RES_PATH/log_$rank.log
        if [ "$rank" -eq 0 ]; then
            "${run[@]}" 2>&1 | tee "$log" &
        else
            "${run[@]}" >"$log" 2>&1 &
        fi
    done
    wait
}

launch() {
    check_launch
    get_rank
    check_env_vars
    set_hccl
    launch_infer_task
}
