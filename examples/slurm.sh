#!/bin/sh
# A sweep of `fairlock sim` over a Slurm cluster, one array task a part:
#
#     sbatch examples/slurm.sh
#     sim-score merge part*.json --json whole.json    # when all tasks have ended
#
# The number of parts is that of the array. Each task simulates on the CPUs it is given.
#SBATCH --job-name=fairlock-sim
#SBATCH --array=1-16
#SBATCH --cpus-per-task=8
#SBATCH --time=00:30:00
set -eu

part=$SLURM_ARRAY_TASK_ID
of=$SLURM_ARRAY_TASK_COUNT
srun fairlock sim all --seeds 5 --shard "$part/$of" --json "part$part.json"
