# To be edited: where this repository and CANN are, and the servers of the job.
recipes_path="your_cann_recipes_path"
cann_path="your_cann_pkgs_path"
export IPs=('xx.xx.xx.xx' 'xx.xx.xx.xx') # only of several servers; the first is the master

rm -rf "$HOME/atc_data/"
if [ ! -f "$cann_path/set_env.sh" ]; then
    echo "ERROR: $cann_path/set_env.sh: no such file"
    exit 1
fi
source "$cann_path/set_env.sh"
export PYTHONPATH=$PYTHONPATH:$recipes_path
export HCCL_CONNECT_TIMEOUT=1200
