"""What a run became is upgraded like every project: its settings follow the release's names."""

from pathlib import Path

import pytest

from tests.importers.conftest import imported, put, vextract
from tests.project.running import forked

RUN = """\
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=a/b \\
    reward_model.reward_manager=dapo custom_reward_function.path=score.py custom_reward_function.name=compute_score \\
    +reward_model.reward_kwargs.overlong_buffer_cfg.enable=true +reward_model.reward_kwargs.overlong_buffer_cfg.len=8 \\
    +reward_model.reward_kwargs.overlong_buffer_cfg.penalty_factor=0.5 reward_model.launch_reward_fn_async=true \\
    actor_rollout_ref.actor.grad_clip=0.7 data.max_response_length=64
"""
SCORE = """\
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return 1.0
"""
READ = """
from pathlib import Path
from mine.settings.loading import load_config
config = load_config(Path("config"), [])
print(config.{manager}, config.{function}.name, config.actor_rollout_ref.actor.grad_clip)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("old", ["0.7.0", "0.4.0"])
def test_a_project_of_a_run_reads_its_settings_after_an_upgrade(tmp_path: Path, old: str) -> None:
    put(tmp_path, {"run.sh": RUN, "score.py": SCORE})
    root = imported(tmp_path / "mine", tmp_path / "run.sh", "--verl", old, "--engine", "hf").root
    before = forked(root, "-c", READ.format(manager="reward_model.reward_manager", function="custom_reward_function"))
    upgraded = vextract("upgrade", root, "--offline", "--json")
    assert upgraded.code == 0, upgraded.err
    after = forked(
        root, "-c", READ.format(manager="reward.reward_manager.name", function="reward.custom_reward_function")
    )
    assert before.stdout == after.stdout == "dapo compute_score 0.7\n", before.stderr + after.stderr
    assert "reward_model.reward_manager" in upgraded.out
