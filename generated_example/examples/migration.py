# vextract:template base/examples/migration.py.jinja - edit freely
"""One experiment in both worlds: here, in one process, or on full verl under Ray.

    python examples/migration.py                 trains here
    USE_RAY=true python examples/migration.py    hands the same config, prompts and reward to verl 0.9.1

Settings follow as for main.py: `python examples/migration.py trainer.total_training_steps=20`.
The package's `api/under_ray/trainer.py` says what can be handed over. verl's workers import `reward` from this file by
its name.
"""

import sys

from generated_example import create_trainer, load_config

NUMBERS = [f"{tens}{ones}" for tens in range(10) for ones in range(10)]
PROMPTS = [
    {"prompt": f"{number}=", "ground_truth": "".join(str((int(digit) + 1) % 10) for digit in number)}
    for number in NUMBERS
]


def reward(data_source, solution_str, ground_truth, extra_info=None):
    """Return the share of digits that are right: each is one more than the prompt's."""
    right = sum(given == wanted for given, wanted in zip(solution_str, ground_truth, strict=False))
    return right / max(len(solution_str), len(ground_truth))


def main() -> None:
    config = load_config("algorithm.adv_estimator=grpo", "trainer.experiment_name=migration", *sys.argv[1:])
    with create_trainer(config, train_dataset=PROMPTS[20:], val_dataset=PROMPTS[:20], reward_fn=reward) as trainer:
        result = trainer.fit()
    print(result.last_checkpoint)


if __name__ == "__main__":
    main()
