"""`vextract upgrade` says what no longer does: what is installed, and settings of a former engine or feature."""

import json
from pathlib import Path

import pytest


@pytest.mark.usefixtures("verl")
def test_what_is_required_has_changed(run, project: Path) -> None:
    planned = run("upgrade", project, "--with", "lora", "--dry-run", code=0)
    assert "`make setup` would install it" in planned.err
    assert json.loads(run("upgrade", project, "--with", "mfu", "--dry-run", "--json", code=0).out)["setup"] is False
    for arguments, again, locked in (
        (["--with", "mfu"], False, False),  # code alone
        (["--with", "lora"], True, True),
        (["--without", "lora"], True, False),
        (["--to", "0.6.1"], False, False),
        (["--to", "0.9.1"], True, False),
    ):
        done = run("upgrade", project, *arguments, code=0)
        assert ("run `make setup`" in done.err) is again, arguments
        pins = (project / "requirements.lock").read_text()
        for name in ("peft", "accelerate"):  # which peft needs
            assert (f"\n{name}==" in pins) is locked, arguments


def test_settings_that_nothing_reads_any_more(run, project: Path) -> None:
    config = project / "config/ppo_trainer.yaml"

    def read_to_change(*arguments: str) -> list[str]:
        found = json.loads(run("upgrade", project, *arguments, "--json", code=0).out)["settings"]["to_change"]
        lines = config.read_text().splitlines()
        assert all(lines[item["line"] - 1].strip().startswith(item["key"].rpartition(".")[2]) for item in found)
        return [item["key"] for item in found]

    assert read_to_change("--with", "lora") == []
    for arguments in (["--engine", "vllm"], ["--without", "lora"]):
        assert read_to_change(*arguments, "--dry-run") == []
    text = config.read_text().replace("lora_rank: 0", "lora_rank: 2")
    config.write_text(text.replace("rollout_micro_batch_size: null", "rollout_micro_batch_size: 2"))
    assert read_to_change("--engine", "vllm") == ["local.rollout_micro_batch_size"]
    config.write_text(config.read_text().replace("mode: sync", "mode: async"))
    assert read_to_change("--engine", "hf", "--without", "lora") == [
        "actor_rollout_ref.model.lora_rank",
        "actor_rollout_ref.rollout.mode",
    ]
    said = run("upgrade", project, "--with", "lora", code=0)
    assert "(nothing reads this value of actor_rollout_ref.rollout.mode any more)\n" in said.out
    assert "delete the keys listed as `to change` under `your settings`" in said.err
