#!/bin/bash
# One launcher for all models:
#   bash executor/scripts/infer.sh --model MODEL [--mode offline|online] --yaml NAME
SCRIPT_DIR=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
ROOT_DIR=$(realpath "$SCRIPT_DIR/../..")

MODEL= MODE=offline YAML_NAME=
while [ $# -gt 0 ]; do
    case "$1" in
    --model) MODEL=$2; shift 2 ;;
    --mode) MODE=$2; shift 2 ;;
    --yaml) YAML_NAME=$2; shift 2 ;;
    *) echo "ERROR: unknown argument $1"; exit 1 ;;
    esac
done
MODEL_DIR=$ROOT_DIR/models/$MODEL
export YAML=$MODEL_DIR/config/$YAML_NAME

source "$SCRIPT_DIR/function.sh"
source "$SCRIPT_DIR/set_env.sh"
[ -f "$MODEL_DIR/set_env.sh" ] && source "$MODEL_DIR/set_env.sh"

python3 "$SCRIPT_DIR/validate_infer_args.py" --mode "$MODE" --yaml "$YAML" || exit 1
launch
