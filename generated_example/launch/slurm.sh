#!/usr/bin/env bash
# vextract:template base/launch/slurm.sh.jinja - edit freely
#
# sbatch launch/slurm.sh KEY=VALUE...      from the project's directory, which all nodes see
#
#SBATCH --job-name=generated_example
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --output=slurm-%j.out
set -euo pipefail

# Processes find each other at the first node; each job has a port of its own.
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 .venv/bin/torchrun \
    --nnodes "$SLURM_NNODES" --nproc-per-node "${SLURM_GPUS_ON_NODE:-1}" \
    --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$first:$((20000 + SLURM_JOB_ID % 20000))" \
    main.py "$@"
