#!/bin/bash
# A run on Slurm: starts Ray on all nodes of an allocation, and the experiment once, on the first of them.
#
#     source <environment>/bin/activate                 sbatch hands the environment on
#     sbatch --nodes=4 --exclusive --mem=0 --gpus-per-node=2 experiments/clusters/slurm.sh experiment=mmqa_prune \
#         model=vllm model.name=Qwen/Qwen2.5-VL-7B-Instruct model.replicas=8 concurrency=512
#     tail -f slurm-<job>.out
#
# The run folder is in runs/<job>/ (output=<folder> puts <job>/ elsewhere), in a file system that all nodes share. Ten
# minutes before the time limit the run is ended, and the job is queued again and resumes it. A job that lost a node or
# was preempted resumes its run, too. `scancel <job>` ends it for good.
#
# A sweep as an array, a trial each on a node with its own Ray; the last job sums them up:
#
#     agora experiment=mmqa_prune sweep.axes.topology.rounds=[2,4,8] sweep.start=false      names the sweep's folder
#     sbatch --nodes=1 --array=0-2 experiments/clusters/slurm.sh trials=runs/<sweep>
#     sbatch --nodes=1 --dependency=afterany:<job> experiments/clusters/slurm.sh resume=runs/<sweep> sweep.start=true
#
# Put your own here, or on sbatch's command line: partition, account, GPUs, time.
#SBATCH --job-name=agora-mm
#SBATCH --ntasks-per-node=1
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@600
#SBATCH --requeue
#SBATCH --open-mode=append
set -u

# The words of agora's command line.
output=runs
words=()
for word in "$@"; do
    case $word in
        output=*) output=${word#*=} ;;
        trials=*)
            trials=("${word#*=}"/trials/*/)
            words+=("resume=${trials[$SLURM_ARRAY_TASK_ID]}") ;;
        *) words+=("$word") ;;
    esac
done
output=$(realpath -m "$output")
job_folder=$output/$SLURM_JOB_ID
if [[ " ${words[*]} " != *" resume="* ]]; then
    words+=("cache=$output/cache")
    begun=("$job_folder"/*/config.yaml)
    if [[ -f ${begun[0]} ]]; then
        # This job was queued again.
        kept=("resume=$(dirname "${begun[0]}")")
        for word in "${words[@]}"; do
            [[ $word == experiment=* ]] || kept+=("$word")
        done
        words=("${kept[@]}")
    else
        words+=("output=$job_folder")
    fi
fi

# The run writes here: its process, which a signal goes to, and its exit code, as srun's is the largest of all nodes.
state=$(mktemp -d "${TMPDIR:-/tmp}/agora-mm-job.XXXXXX")
ln -s "/proc/$$/fd/1" "$state/output"
run='"${@:2}" >>"$1/output" 2>&1 & echo $! >"$1/process"; wait $!; echo $? >"$1/code"'

if ((SLURM_JOB_NUM_NODES == 1)); then
    # With the run's own Ray, so that other jobs may share the node.
    bash -c "$run" bash "$state" agora "${words[@]}" &
elif [[ $(squeue -h -j "$SLURM_JOB_ID" -o %h) != NO ]]; then
    echo "error: a job on several nodes needs whole ones, as \`ray stop\` ends all Ray of its user: add --exclusive" >&2
    exit 2
else
    head=$(hostname -I | cut -d' ' -f1)
    # Whoever joins this Ray needs the token. Others may have a /tmp/ray. Shared file systems are slow to import from.
    RAY_AUTH_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    export RAY_AUTH_TOKEN RAY_AUTH_MODE=token RAY_TMPDIR=/tmp/agora-mm-$SLURM_JOB_ID
    export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=600
    mkdir -p "$job_folder"
    srun --cpu-bind=none --open-mode=append --output="$job_folder/ray-%t.log" \
        bash -c 'mkdir -p "$RAY_TMPDIR"; "$@"; code=$?; rm -rf "$RAY_TMPDIR"; exit $code' bash \
        ray symmetric-run --address "$head:6379" --min-nodes "$SLURM_JOB_NUM_NODES" -- \
        bash -c "$run" bash "$state" agora "${words[@]}" ray.address=auto &
fi

ended=
trap 'ended=143; kill -TERM "$(cat "$state/process" 2>/dev/null || jobs -p)"' TERM
until wait -n; (($? == 127)); do :; done
code=$(cat "$state/code" 2>/dev/null || echo "${ended:-1}")
if [[ ! -f $state/process ]]; then
    echo "the run did not start; $job_folder/ray-*.log has the reason" >&2
fi
rm -r "$state"

# A job that is cancelled gets the same signal, and is no longer running.
if [[ $ended && $code == 143 && $(squeue -h -j "$SLURM_JOB_ID" -o %T) == RUNNING ]]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
