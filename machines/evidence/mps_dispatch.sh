#!/usr/bin/env bash
# Runs mps_dispatch under an MPS server of its own, which it stops again, however it ends:
#   mps_dispatch.sh BINARY FOLDER [SECONDS]
# BINARY is the compiled mps_dispatch.cu. FOLDER is created and gets run-RUN/PRIORITY-REPEAT/ with the samples, which
# analyse.py reads, and the logs. SECONDS is how long each chain is measured beside each neighbour (0.15).
# Takes two minutes. Needs one NVIDIA GPU of compute capability 9.0 that nothing else uses, and nvidia-cuda-mps-control.
set -euo pipefail

die() {
    printf 'mps_dispatch.sh: %s\n' "$*" >&2
    exit 1
}

if [[ ${1:-} == --help || $# -lt 2 || $# -gt 3 ]]; then
    sed -n '2,/^set/{/^# /s/^# //p}' "$0"
    [[ ${1:-} == --help ]] && exit 0
    exit 2
fi
binary=$(realpath -- "$1") folder=$2 seconds=${3:-0.15}
[[ -x $binary ]] || die "$binary is no program; compile mps_dispatch.cu first (README.md)"
[[ ! -e $folder ]] || die "$folder exists; give a new folder, or remove it"
for tool in nvidia-cuda-mps-control nvidia-smi setsid timeout; do
    command -v "$tool" >/dev/null || die "there is no $tool on PATH"
done
others=$(nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader)
[[ -z $others ]] || die "other programs use the GPU and would disturb: $others"
mkdir -p "$folder"
folder=$(realpath -- "$folder")

# In /tmp, as the path of a socket has 107 bytes at most.
private=$(mktemp -d /tmp/mps-dispatch.XXXXXX)
export CUDA_MPS_PIPE_DIRECTORY=$private/pipe CUDA_MPS_LOG_DIRECTORY=$private/log
mkdir "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"

# Processes of our MPS: the control daemon and its server, known by the pipe folder in their environment.
mps_processes() {
    local environment pid
    # shellcheck disable=SC2013 # these paths have no spaces
    for environment in $(grep -lzsxF "CUDA_MPS_PIPE_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY" /proc/[0-9]*/environ); do
        pid=${environment//[!0-9]/}
        # A process's name has 15 letters at most.
        [[ $(cat "/proc/$pid/comm" 2>/dev/null) == nvidia-cuda-mps ]] && echo "$pid"
    done
    return 0
}

stop_mps() {
    local pids tries
    if [[ -n $(mps_processes) ]]; then
        timeout 20 nvidia-cuda-mps-control <<<'quit -t 5' || true
        for ((tries = 0; tries < 50; tries++)); do
            [[ -n $(mps_processes) ]] || break
            sleep 0.2
        done
        pids=$(mps_processes)
        # shellcheck disable=SC2086 # one word per process
        [[ -z $pids ]] || kill -KILL $pids || true
    fi
    rm -rf -- "${CUDA_MPS_PIPE_DIRECTORY%/pipe}"
}

clients=()
finish() {
    trap '' INT TERM HUP
    local client
    for client in "${clients[@]}"; do
        kill "$client" 2>/dev/null || true
        wait "$client" 2>/dev/null || true
    done
    cp -r "$CUDA_MPS_LOG_DIRECTORY" "$folder/mps-log" || true
    stop_mps
    kill "$guard" 2>/dev/null || true
}

# A trap does not run when this script is killed with SIGKILL; then a process outside its group stops the server.
export -f mps_processes stop_mps
# shellcheck disable=SC2016 # the inner shell expands it
setsid bash -c 'tail --pid="$1" -f /dev/null; sleep 5; stop_mps' guard "$$" </dev/null >/dev/null 2>&1 &
guard=$!
trap finish EXIT
trap 'exit 130' INT TERM HUP

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm --format=csv >"$folder/gpu.csv"
nvidia-cuda-mps-control -d || die "the MPS control daemon does not start; see $folder/mps-log"

mps_clients() {
    local server
    for server in $(timeout 10 nvidia-cuda-mps-control <<<get_server_list); do
        timeout 10 nvidia-cuda-mps-control <<<"get_client_list $server"
    done
}

# pass RUN NAME PRIORITY: `neighbour` has PRIORITY (0, or 1 for below normal), `chains` 0.
pass() {
    local where=$folder/run-$1/$2 priority=$3 began=$SECONDS client
    local arguments=("$1" "$where" "$seconds")
    mkdir -p "$where"
    CUDA_MPS_CLIENT_PRIORITY=$priority \
        timeout -k 5 120 "$binary" neighbour "${arguments[@]}" >"$where/neighbour.log" 2>&1 &
    clients=($!)
    CUDA_MPS_CLIENT_PRIORITY=0 timeout -k 5 120 "$binary" chains "${arguments[@]}" >"$where/chains.log" 2>&1 &
    clients+=($!)
    # Without a server both would take turns on the GPU, which the samples do not show at once.
    for _ in {1..20}; do
        sleep 1
        mps_clients >"$where/mps-clients.txt" || true
        [[ $(wc -l <"$where/mps-clients.txt") -lt 2 ]] || break
    done
    [[ $(wc -l <"$where/mps-clients.txt") -ge 2 ]] || die "$where: not both came to the MPS server; see its *.log"
    # If the one that ends first has failed, the other would wait for it.
    wait -n "${clients[@]}" || die "$where: a client failed: $(tail -qn 3 "$where"/*.log)"
    for client in "${clients[@]}"; do
        wait "$client" || die "$where: a client failed: $(tail -qn 3 "$where"/*.log)"
    done
    clients=()
    printf '%s: %s s\n' "$where" $((SECONDS - began))
}

for run in 1 2; do
    for repeat in 1 2 3; do
        pass "$run" "equal-$repeat" 0
        # The last pass of equal priority tells whether anything has changed since the first.
        [[ $repeat -eq 3 ]] || pass "$run" "below-$repeat" 1
    done
done
