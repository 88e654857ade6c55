"""Programs that start verl's trainer in Python: what is read of them is what they hand it when Python runs them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from extractor.importers.runs.reading import read_run
from extractor.values.errors import UsageError
from tests.importers.under_python import BASE, OWN, flat, handed, project, stated

PROGRAMS = {
    "composed, and another file's settings put over it": """
        import argparse
        from pathlib import Path
        from hydra import compose, initialize_config_dir
        from omegaconf import OmegaConf
        import verl.trainer.config as of_verl
        from verl.trainer.main_ppo import run_ppo

        def merged(base, more):
            result = base.copy()
            for key, value in more.items():
                if key in result and isinstance(result[key], dict) and isinstance(value, dict):
                    result[key] = merged(result[key], value)
                else:
                    result[key] = value
            return result

        def main():
            parser = argparse.ArgumentParser()
            parser.add_argument("--config", default="own.yaml")
            parser.add_argument("--rate", type=float, default=3e-6)
            args = parser.parse_args()
            with initialize_config_dir(config_dir=str(Path(of_verl.__file__).parent), version_base=None):
                base = OmegaConf.to_container(compose(config_name="ppo_trainer"), resolve=False)
            config = merged(base, OmegaConf.to_container(OmegaConf.load(args.config), resolve=False))
            config["actor_rollout_ref"]["actor"]["optim"]["lr"] = args.rate
            run_ppo(OmegaConf.create(config))

        if __name__ == "__main__":
            main()
        """,
    "composed with overrides, then changed in every way": """
        from hydra import compose, initialize
        from omegaconf import OmegaConf, open_dict
        from verl.trainer.main_ppo import run_ppo

        N = 4
        with initialize(config_path="verl/trainer/config", version_base=None):
            config = compose("ppo_trainer", overrides=[f"actor_rollout_ref.rollout.n={N}", "data.seed=7"])
        OmegaConf.set_struct(config, False)
        config.trainer.logger = ["console", "wandb"]
        with open_dict(config):
            config.algorithm.adv_estimator = "grpo"
            config["data"].train_files = ["a.parquet", "b.parquet"]
        OmegaConf.update(config, "trainer.total_epochs", N * 2)
        named = OmegaConf.from_dotlist(["trainer.project_name=q"])
        config = OmegaConf.merge(config, {"data": {"max_prompt_length": 1024}}, named)
        run_ppo(config)
        """,
    "Hydra's, through Ray": """
        import hydra
        import ray
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer

        @ray.remote(num_cpus=1)
        def main_task(config):
            config.trainer.total_epochs = 2
            trainer = RayPPOTrainer(config=config, tokenizer=None)
            trainer.init_workers()
            trainer.fit()

        @hydra.main(config_path="verl/trainer/config", config_name="ppo_trainer", version_base=None)
        def main(config):
            if not ray.is_initialized():
                ray.init(runtime_env={})
            ray.get(main_task.remote(config))

        if __name__ == "__main__":
            main()
        """,
    "settings that are looked at on two ways, and set on both": """
        import os
        import hydra
        from verl.trainer.main_ppo import run_ppo

        @hydra.main(config_path="verl/trainer/config", config_name="ppo_trainer", version_base=None)
        def main(config):
            if os.environ.get("ENVIRONMENT") == "games":
                factor = config.algorithm.gamma * config.actor_rollout_ref.rollout.n
                config.trainer.total_epochs = 7
            else:
                factor = config.algorithm.gamma + config.actor_rollout_ref.rollout.n
                config.trainer.total_epochs = 7
            print(factor)
            run_ppo(config)

        main()
        """,
    "verl's own main, under another name": """
        import hydra
        from verl.trainer.main_ppo import main as train

        @hydra.main(config_path="verl/trainer/config", config_name="ppo_trainer", version_base=None)
        def main(config):
            config.data.seed = 11
            train(config)

        if __name__ == "__main__":
            main()
        """,
    "a runner of verl's, and a trainer of one's own": """
        import ray
        from omegaconf import OmegaConf
        from verl.trainer.main_ppo import TaskRunner
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer

        class OwnTrainer(RayPPOTrainer):
            pass

        @ray.remote
        class Runner:
            def __init__(self, epochs):
                self.epochs = epochs
            def run(self, config):
                config.trainer.total_epochs = self.epochs
                OwnTrainer(config=config).fit()

        config = OmegaConf.load("verl/trainer/config/ppo_trainer.yaml")
        config.data.seed = 3
        runner = Runner.options(num_cpus=1).remote(5)
        ray.get(runner.run.remote(config))
        """,
    "verl's own runner": """
        import ray
        from omegaconf import OmegaConf
        from verl.trainer.main_ppo import TaskRunner

        settings = OmegaConf.create({"trainer": {"total_epochs": 9}, "data": {"seed": "${trainer.total_epochs}"}})
        config = OmegaConf.merge(OmegaConf.load("verl/trainer/config/ppo_trainer.yaml"), settings)
        runner = ray.remote(num_cpus=1)(TaskRunner).remote()
        ray.get(runner.run.remote(config))
        """,
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_what_a_program_sets_is_what_it_hands_to_the_trainer(tmp_path: Path, text: str) -> None:
    program = project(tmp_path, text)
    run = read_run(program, {}, {})
    assert {**flat(BASE), **stated(run)} == flat(handed(program))
    assert run.remarks == ()


def test_a_command_gives_a_program_its_options(tmp_path: Path) -> None:
    program = project(tmp_path, next(iter(PROGRAMS.values())))
    (tmp_path / "other.yaml").write_text("trainer: {total_epochs: 1}\n")
    script = tmp_path / "start.sh"
    script.write_text("set -e\npython3 start.py --config other.yaml --rate 5e-6 2>&1 | tee log\n")
    said = {**flat(BASE), **stated(read_run(script, {}, {}))}
    assert said == flat(handed(program, "--config", "other.yaml", "--rate", "5e-6"))
    assert said["trainer.total_epochs"] == 1


def test_a_command_of_a_program_that_hydra_configures_has_overrides(tmp_path: Path) -> None:
    project(tmp_path, PROGRAMS["Hydra's, through Ray"])
    script = tmp_path / "start.sh"
    script.write_text("python3 start.py --config-name=own --config-path=. trainer.project_name=x\n")
    run = read_run(script, {}, {})
    assert stated(run) == {"trainer.project_name": "x", "trainer.total_epochs": 2}
    assert (list(run.overlay), run.program) == ([OWN], str(tmp_path / "start.py"))


CHANGES = """
    import hydra
    from omegaconf import OmegaConf, open_dict
    from verl.trainer.main_ppo import run_ppo

    @hydra.main(config_path="verl/trainer/config", config_name="ppo_trainer", version_base=None)
    def main(config):
        if config.actor_rollout_ref.rollout.n > 1:
            config.algorithm.adv_estimator = "grpo"
        with open_dict(config):
            config.trainer.total_epochs *= 2
            config.data.extra = {"files": [config.data.train_files], "seed": config.data.seed}
        OmegaConf.update(config, "trainer.project_name", f"{config.trainer.project_name}-{config.data.seed}")
        run_ppo(config)

    main()
    """
WORDS = (
    "actor_rollout_ref.rollout.n=4",
    "data.seed=5",
    "data.train_files=a.parquet",
    "trainer.total_epochs=3",
    "trainer.project_name=q",
    "actor_rollout_ref.actor.optim.lr=2e-6",
)


def test_what_a_program_sets_of_the_config_of_a_launch_is_what_it_hands_to_the_trainer(tmp_path: Path) -> None:
    program = project(tmp_path, CHANGES)
    script = tmp_path / "start.sh"
    script.write_text(f"python3 start.py {' '.join(WORDS)}\n")
    run = read_run(script, {}, {})
    assert {**flat(BASE), **stated(run)} == flat(handed(program, *WORDS))
    assert (run.remarks, run.notes) == (
        (),
        ("line 1: start.py is another trainer than main_ppo: what only it does is not carried over",),
    )


def test_what_a_program_sets_by_what_only_the_launch_knows_is_to_do(tmp_path: Path) -> None:
    project(tmp_path, CHANGES)
    script = tmp_path / "start.sh"
    words = " ".join(WORDS).replace("n=4", "n=$(count)").replace("data.seed=5", "data.seed=$SEED")
    script.write_text(f"SEED=$(date +%s)\npython3 start.py {words}\n")
    run = read_run(script, {}, {})
    assert {remark.key: (remark.value, remark.what) for remark in run.remarks} == {
        "algorithm.adv_estimator": ("'grpo' if config.actor_rollout_ref.rollout.n > 1 else None", "to do"),
        "data.extra.seed": ("$SEED", "to do"),
        "trainer.project_name": ("f'q-{config.data.seed}'", "to do"),
    }
    assert "algorithm.adv_estimator" not in stated(run)


PASSES_ON = """
    import argparse
    import subprocess
    import sys

    from helpers import settings

    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="ppo_trainer")
    parser.add_argument("--fast", action="store_true")
    args, others = parser.parse_known_args()
    command = [sys.executable, "-m", "verl.trainer.main_ppo", f"--config-name={args.config}", *settings(args.fast)]
    command.extend(others)
    subprocess.run(command, check=True)
    """
HELPERS = (
    "def settings(fast):\n    return ['algorithm.adv_estimator=grpo', f'trainer.total_epochs={1 if fast else 3}']\n"
)


@pytest.mark.parametrize("words", ["", "--fast data.seed=3", "--config ppo_trainer data.seed=4 trainer.project_name=q"])
def test_a_program_that_a_script_starts_may_start_the_run(tmp_path: Path, words: str) -> None:
    program = project(tmp_path, PASSES_ON)
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "verl/trainer/main_ppo.py").write_text(
        "import json, os, sys\njson.dump(sys.argv[1:], open(os.environ['HANDED'], 'w'))\n"
    )
    script = tmp_path / "start.sh"
    script.write_text(f"python3 start.py {words}\n")
    given = [word for word in handed(program, *words.split()) if not word.startswith("--")]
    found = [f"{key}={value}" for key, value in stated(read_run(script, {}, {})).items()]
    assert found == given


def test_a_job_of_rays_is_a_command(tmp_path: Path) -> None:
    program = tmp_path / "submit.py"
    program.write_text(
        "from ray.job_submission import JobSubmissionClient\n"
        "command = ['python', '-m', 'verl.trainer.main_ppo', 'data.seed=3']\n"
        "JobSubmissionClient().submit_job(entrypoint=' '.join(command))\n"
    )
    assert stated(read_run(program, {}, {})) == {"data.seed": 3}


def test_a_program_that_a_script_starts_may_start_a_training_script_of_trls(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "start.sh").write_text("python all.py --rate 2e-6\n")
    (tmp_path / "all.py").write_text(
        "import argparse, subprocess, sys\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--rate', type=float)\n"
        "args = parser.parse_args()\nsubprocess.run([sys.executable, 'prepare.py'])\n"
        "subprocess.run([sys.executable, 'grpo.py', '--learning_rate', str(args.rate)])\n"
    )
    (tmp_path / "grpo.py").write_text(
        "import argparse\nfrom trl import GRPOConfig, GRPOTrainer\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--learning_rate', type=float, default=1.0)\nargs = parser.parse_args()\n"
        "config = GRPOConfig(learning_rate=args.learning_rate, num_generations=4)\n"
        "GRPOTrainer(model='a/b', args=config, reward_funcs=len)\n"
    )
    assert stated(read_run(tmp_path / "start.sh", {}, {}))["actor_rollout_ref.actor.optim.lr"] == 2e-6


def test_what_a_script_goes_to_counts_for_the_program_that_it_starts(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    files = {
        "train/start.py": "import os, subprocess\n"
        "subprocess.run('python -m verl.trainer.main_ppo --config-path=conf --config-name=mine '"
        " 'custom_reward_function.path=own.py data.seed=$SEED', shell=True)\n",
        "train/conf/mine.yaml": "trainer: {total_epochs: 7}\n",
        "train/own.py": "",
        "start.sh": "export SEED=3\ncd train\npython start.py\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    run = read_run(tmp_path / "start.sh", {}, {})
    assert (stated(run)["data.seed"], list(run.overlay)) == (3, [{"trainer": {"total_epochs": 7}}])
    assert run.places.find("own.py") == tmp_path / "train" / "own.py"


def test_a_program_that_starts_itself_ends(tmp_path: Path) -> None:
    project(tmp_path, "import subprocess\nsubprocess.run(['accelerate', 'launch', 'start.py', 'main_ppo=1'])\n")
    (tmp_path / "start.sh").write_text("python3 start.py\n")
    with pytest.raises(UsageError):
        read_run(tmp_path / "start.sh", {}, {})


SOMETIMES = """
    import argparse
    from hydra import compose
    from verl.trainer.main_ppo import run_ppo

    parser = argparse.ArgumentParser()
    parser.add_argument("--fast", required=True)
    args = parser.parse_args()
    config = compose(config_name="ppo_trainer", overrides=[f"actor_rollout_ref.model.path={home()}/m", "data.seed=1"])
    if args.fast:
        config.trainer.total_epochs = 1
        config.trainer.other.deep = 2
    config.data.train_files = read(args.fast)
    run_ppo(config)
    """


def test_what_only_a_program_knows_is_to_do(tmp_path: Path) -> None:
    run = read_run(project(tmp_path, SOMETIMES), {}, {})
    assert stated(run) == {"data.seed": 1}
    assert [(remark.key, remark.what) for remark in run.remarks] == [
        ("actor_rollout_ref.model.path", "to do"),
        ("data.train_files", "to do"),
        ("trainer.total_epochs", "to do"),
        ("trainer.other.deep", "to do"),
    ]


def test_what_an_option_would_say_is_asked_for_by_its_name(tmp_path: Path) -> None:
    run = read_run(project(tmp_path, SOMETIMES.replace("read(args.fast)", "args.fast")), {}, {})
    why = {remark.key: remark.why for remark in run.remarks}
    assert "--set fast=... says it" in why["data.train_files"]
    assert "--set" not in why["actor_rollout_ref.model.path"]


def test_an_option_is_said_by_hand(tmp_path: Path) -> None:
    run = read_run(project(tmp_path, SOMETIMES), {"fast": "yes"}, {})
    assert stated(run) == {"data.seed": 1, "trainer.total_epochs": 1, "trainer.other.deep": 2}


def test_a_program_whose_config_only_its_command_knows_asks_for_it(tmp_path: Path) -> None:
    text = PROGRAMS["composed, and another file's settings put over it"].replace('default="own.yaml"', "required=True")
    program = project(tmp_path, text)
    with pytest.raises(UsageError, match="only who starts it knows its config") as caught:
        read_run(program, {}, {})
    assert caught.value.hint == "--set config=FILE says it"
    assert stated(read_run(program, {"config": "own.yaml"}, {}))["own.depth"] == 2


def test_a_program_with_a_whole_config_of_its_own(tmp_path: Path) -> None:
    text = """
        from omegaconf import OmegaConf
        from verl.trainer.main_ppo import run_ppo
        config = OmegaConf.load("whole.yaml")
        config.trainer.total_epochs = 4
        run_ppo(config)
        """
    program = project(tmp_path, text)
    (tmp_path / "whole.yaml").write_text(yaml.safe_dump(BASE))
    assert read_run(program, {}, {}).resolved == handed(program)


def test_settings_of_something_that_is_not_known_are_named(tmp_path: Path) -> None:
    text = """
        from hydra import compose
        from omegaconf import OmegaConf
        from verl.trainer.main_ppo import run_ppo
        about_ray = OmegaConf.merge(environment(), more_of_it())
        words = OmegaConf.from_dotlist(words_of(2))
        run_ppo(OmegaConf.merge(compose(config_name="ppo_trainer"), settings_of(1), words))
        """
    run = read_run(project(tmp_path, text), {}, {})
    assert run.notes == tuple(
        f"{text}: not known without running the program; what it sets is not carried over"
        for text in ("words_of(2)", "settings_of(1)")
    )
