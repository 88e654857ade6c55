"""Run every benchmark and print its figures, or those that are named: `python -m benchmarks sizes training`."""

import sys

from benchmarks import (
    ahead,
    algorithms,
    checkpoints,
    drafts,
    early_rewards,
    gpu,
    memory,
    multiturn,
    mutants,
    plan,
    qlora,
    rollouts,
    sandbox,
    sizes,
    speed,
    training,
    uneven,
    vllm_sync,
    watch,
)

BENCHMARKS = {
    "sizes": ("Size of the vendored code (engine hf, GRPO)", sizes.run),
    "speed": ("Speed, as ratios within this run", speed.run),
    "training": ("Training, as ratios within this run", training.run),
    "memory": ("Memory of an update at a large vocabulary", memory.run),
    "plan": ("Memory as it is planned, against what is measured", plan.run),
    "checkpoints": ("How long training stands still for a checkpoint", checkpoints.run),
    "ahead": ("Rollouts one batch ahead of the training", ahead.run),
    "early_rewards": ("Rewards of responses that have ended, while others are written", early_rewards.run),
    "watch": ("Watching the engine's log-probabilities", watch.run),
    "vllm_sync": ("New weights for vLLM", vllm_sync.run),
    "gpu": ("A model of half a billion weights on a GPU", gpu.run),
    "qlora": ("An adapter beside weights in 4 bits", qlora.run),
    "multiturn": ("Episodes of several turns", multiturn.run),
    "uneven": ("Episodes whose environments answer unevenly late", uneven.run),
    "rollouts": ("Responses by transformers, as ratios within this run", rollouts.run),
    "sandbox": ("Programs judged by the sandbox", sandbox.run),
    "drafts": ("Manifests as they are drafted, against those that were written", drafts.run),
    "mutants": ("Changes of vendored code that `vextract verify` sees", mutants.run),
    "algorithms": ("Every preset on the toy task", algorithms.run),
}


def main(names: list[str]) -> int:
    """Run these, or all; the exit code is 1 where a limit does not hold."""
    if names[:1] == ["mutants"]:
        return mutants.main(names[1:])
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    results = []
    for name in names or BENCHMARKS:
        title, run = BENCHMARKS[name]
        print(f"## {title}\n")
        results.append(run())
        print()
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
