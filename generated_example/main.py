# vextract:template base/main.py.jinja - edit freely
"""Train.

    python main.py                                  a toy model learns a toy environment, in a minute, on any machine
    python main.py actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct data.train_files=... data.val_files=...
    torchrun --nproc-per-node 2 main.py ...         the same in several processes

Settings are key=value, with verl's names; config/ppo_trainer.yaml has them all, and what they mean.

    --cfg                 print the resulting config, and stop
    --info                print which files it is made of, and stop
    --config-name NAME    start from another file of config/, whose defaults begin with ppo_trainer
    --config-path DIR     look for it and for presets in another directory first; --config-dir DIR: last
    --multirun            a run for each combination of values: key=1,2 preset=grpo,rloo; and one report
    --help                print this, and stop
"""

import contextlib
import gc
import logging
import os
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

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
    from generated_example.run.failures import report
    from generated_example.run.next_steps import say_where

    ranks = Ranks(config.actor_rollout_ref.nccl_timeout, config.local.peer_timeout)
    try:
        with contextlib.ExitStack() as around:
            trainer = assemble(config, ranks, around)
            finished = trainer is None or trainer.fit()
        if trainer is not None:
            say_where(trainer.checkpoints, config, trainer.total_steps, finished=finished)
        ranks.barrier()  # torchrun ends all others when one has ended and not reached the last step
        return 0 if finished else 130
    except (Exception, KeyboardInterrupt) as error:
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
    from generated_example.settings.loading import load_config, merged_files, notes_on, settle_device
    from generated_example.settings.path_checks import check_paths

    try:
        asked = parse(arguments, CONFIG_DIRECTORY)
        if asked.multirun:
            from generated_example.run.sweep import combinations, sweep

            runs = combinations(asked.overrides)
            config = [load_config(asked.files, overrides) for overrides in runs][0]
            return sweep(Path(__file__), asked.flags, runs, Path(config.trainer.default_local_dir) / "sweep")
        config = load_config(asked.files, asked.overrides)
        if asked.info:
            say("\n".join(f"{file:40} {section}" for file, section in merged_files(asked.files, asked.overrides)))
            return 0
        if asked.cfg:
            from omegaconf import OmegaConf

            say(OmegaConf.to_yaml(config))
            return 0
        check_paths(config)  # settle_device imports torch, which takes seconds
        settle_device(config)
    except ConfigError as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"error: {error}", file=sys.stderr)
        return 2
    if os.environ.get("RANK", "0") == "0":
        for note in notes_on(config, asked.overrides):
            print(f"note: {note}", file=sys.stderr)
    return config


def assemble(config: Any, ranks: Any, around: contextlib.ExitStack) -> Any:
    """Put the parts of a run together.

    Args:
        config: the whole config.
        ranks: this process among its peers.
        around: what the run needs around it is entered here: its lock, its tracker, the rollout engine.

    Returns:
        The trainer; None if the run to be resumed has reached its last step.
    """
    from generated_example.training.hook_calls import import_hooks

    import_hooks()  # what they register can now be chosen by name
    from generated_example.data.dataloading import build_dataloaders
    from generated_example.data.datasets import build_datasets
    from generated_example.data.toy import ensure_toy_model
    from generated_example.run.checkpoint import Checkpoints, load_optimizer_state, load_state, restoring, step_of
    from generated_example.run.distributed import seed_everything
    from generated_example.run.next_steps import noting_checkpoint
    from generated_example.run.run_lock import lock_run_directory
    from generated_example.run.stray_errors import stray_errors_in
    from generated_example.settings.checks import check_config
    from generated_example.tracking.run_tracker import RunTracker
    from generated_example.training.rewarding import Rewards
    from generated_example.training.rollouts import Rollouts
    from generated_example.training.trainer import LocalPPOTrainer
    from generated_example.workers.models import load_tokenizer
    from generated_example.workers.policy import Policy, Reference
    from generated_example.workers.rollout_choice import build_rollout_engine

    if not gc.isenabled():
        gc.freeze()  # what was imported stays: no collection has to look through it again
        gc.enable()
    use_reference, use_critic = check_config(config, ranks.world_size)
    run_directory = Path(config.trainer.default_local_dir)
    run_lock = lock_run_directory(run_directory, ranks)
    model = config.actor_rollout_ref.model
    if model.path is None:
        task = config.data.env.task
        model.path = str(ranks.on_driver(lambda: ensure_toy_model(run_directory / f"toy_model_{task}", task=task)))
    seed_everything(config.local.seed + ranks.rank)

    tokenizer = load_tokenizer(model, ranks)
    train_loader, val_loader = build_dataloaders(config, ranks, partial(build_datasets, config, tokenizer))
    total_steps = config.trainer.total_training_steps or len(train_loader) * config.trainer.total_epochs

    keep, digests = config.trainer.max_actor_ckpt_to_keep, config.local.check_digests
    checkpoints = Checkpoints(run_directory, ranks, keep=keep, digests=digests)
    resume = checkpoints.to_resume(config.trainer.resume_mode, config.trainer.resume_from_path)
    start_step = step_of(resume) if resume else 0
    if start_step >= total_steps and not config.trainer.val_only:
        if ranks.rank == 0:
            print(f"nothing to do: {resume} is at step {start_step} of {total_steps}")
            print("hint: set trainer.total_training_steps higher, or trainer.resume_mode=disable to start anew")
        return None

    weights = {name: checkpoints.weights(resume, name) for name in ("actor", *["critic"] * use_critic)}
    policy = Policy(config, tokenizer, ranks, weights["actor"] or model.path, total_steps)
    reference = Reference(config, tokenizer, ranks, policy) if use_reference else None
    rewards = Rewards(config, tokenizer, ranks)
    if not config.trainer.val_only:
        checkpoints.begin(resume)
    tracker = RunTracker(config, run_directory, total_steps, start_step=start_step, processes=ranks.world_size)
    engine = build_rollout_engine(config, tokenizer, ranks, policy)
    noting = noting_checkpoint(checkpoints, config, total_steps)
    stray = stray_errors_in(run_directory)
    for part in (noting, run_lock, stray, tracker, contextlib.closing(engine), contextlib.closing(rewards)):
        around.enter_context(part)
    trainer = LocalPPOTrainer(
        config,
        tokenizer,
        ranks,
        policy=policy,
        reference=reference,
        critic=None,
        rollouts=Rollouts(config, tokenizer, ranks, engine),
        reward_fn=rewards.train,
        val_reward_fn=rewards.validation,
        train_loader=train_loader,
        val_loader=val_loader,
        tracker=tracker,
        checkpoints=checkpoints,
        total_steps=total_steps,
    )
    if resume:
        tracker.message(f"resuming from {resume}")
        with restoring(resume):
            policy.load_optimizer_state(load_optimizer_state(resume / "actor", ranks), ranks)
            trainer.restore(start_step, *load_state(resume, ranks))
    return trainer


if __name__ == "__main__":
    gc.disable()  # looking for garbage takes a sixth of the imports' time, and finds none; on again in train()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore", message="In CPU autocast")  # float32 is meant: nothing is to be cast
    warnings.filterwarnings("ignore", message="'set_vital' is deprecated")
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")  # the critic's values, which nothing changes
    logging.getLogger("torch.fx._symbolic_trace").setLevel(logging.ERROR)  # nested tensors ask in an old way
    try:
        sys.exit(main(sys.argv[1:]))
    except ModuleNotFoundError as error:  # what this file imports; a run reports its own errors
        print(f"error: {sys.executable} has no package {error.name}", file=sys.stderr)
        print("hint: `make setup` makes .venv with everything; then: .venv/bin/python main.py", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # while the program was still being loaded
        print("interrupted", file=sys.stderr)
        sys.exit(130)
