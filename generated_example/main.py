# vextract:template base/main.py.jinja - edit freely
"""Train.

    python main.py                                  a toy model learns a toy environment, in a minute, on any machine
    python main.py actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct data.train_files=... data.val_files=...
    torchrun --nproc-per-node 2 main.py ...         the same in several processes

Settings are key=value, with verl's names; config/ppo_trainer.yaml has them all, and what they mean.

    --cfg                 print the resulting config, and stop
    --config FILE         the settings of any YAML file go over config/ppo_trainer.yaml; one with `defaults` replaces it
    --config-name NAME    start from another file of config/, whose defaults begin with ppo_trainer
    --help                print this, and stop
"""

import gc
import os
import sys
from pathlib import Path
from typing import Any

from generated_example.run.process import quiet

CONFIG_DIRECTORY = Path(__file__).resolve().parent / "config"


def main(arguments: list[str]) -> int:
    """Train with these command-line arguments.

    Returns:
        The exit code: 0 done, 1 failed, 2 config or data are at fault, 130 stopped.
    """
    config = read_config(arguments)
    if isinstance(config, int):
        return config
    from generated_example.run.distributed import Ranks
    from generated_example.training.failures import print_last_checkpoint, report

    ranks = Ranks.of_process(config)
    try:
        from generated_example.training.trainer import LocalPPOTrainer

        with LocalPPOTrainer(config, ranks=ranks) as trainer:
            for _ in trainer.steps():  # a step's number, metrics and batch, to look at
                pass
        print_last_checkpoint(trainer.checkpoints, config, trainer.total_steps, finished=trainer.finished)
        ranks.barrier()  # torchrun ends all others when one has ended and not reached the last step
        return 0 if trainer.finished else 130
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        code = report(error, ranks)
        if ranks.world_size > 1:
            ranks.fail(code)
        return code
    finally:
        ranks.close()


def read_config(arguments: list[str]) -> Any:
    """Return the checked config of a run; an exit code where there is nothing to train."""
    from generated_example.output import say

    if "--help" in arguments or "-h" in arguments:
        say(__doc__.strip())
        return 0
    from generated_example.errors import ConfigError
    from generated_example.settings.flags import parse
    from generated_example.settings.loading import load_config, settle_device
    from generated_example.settings.setting_checks import check_paths, config_notes

    is_first = os.environ.get("RANK", "0") == "0"
    try:
        asked = parse(arguments, CONFIG_DIRECTORY)
        config = load_config(asked.files, asked.overrides)
        if asked.cfg:
            from omegaconf import OmegaConf

            say(OmegaConf.to_yaml(config))
            return 0
        check_paths(config)
        if is_first:
            print("loading torch and transformers: some seconds", file=sys.stderr, flush=True)
        settle_device(config)
    except ConfigError as error:
        if is_first:
            print(f"error: {error}", file=sys.stderr)
        return 2
    for note in config_notes(config, asked.overrides) if is_first else ():
        print(f"note: {note}", file=sys.stderr)
    return config


if __name__ == "__main__":
    gc.disable()  # looking for garbage takes a sixth of the imports' time, and finds none; on again in train()
    quiet()
    try:
        sys.exit(main(sys.argv[1:]))
    except ModuleNotFoundError as error:  # what this file imports; a run reports its own errors
        what, hint = f"the project has no module {error.name}", "`vextract sync --removed` restores removed files"
        if error.name is None:  # one of a feature that is not here
            what, _, hint = str(error).partition("\nhint: ")
        elif error.name.partition(".")[0] != "generated_example":
            what = f"{sys.executable} has no package {error.name}"
            hint = "`make setup` makes .venv with everything; then: .venv/bin/python main.py"
        print(f"error: {what}\nhint: {hint}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # while the program was still being loaded
        print("interrupted", file=sys.stderr)
        sys.exit(130)
