"""What a run says at once, further than a project's own tests go."""

import importlib
import json
import shlex
from contextlib import nullcontext as nothing

import pytest
from conftest import CONFIG_DIRECTORY
from omegaconf import OmegaConf
from toy.data.toy import ensure_toy_model
from toy.errors import ConfigError
from toy.settings.loading import load_config
from toy.settings.setting import SCHEMA
from toy.settings.setting_checks import check_paths
from toy.workers.models import check_positions
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

WRITTEN = [key for key, known in SCHEMA.items() if known.path in ("written", "cache")]


def test_a_directory_that_cannot_be_made_or_written_is_an_error_at_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for key in WRITTEN:
        with pytest.raises(ConfigError, match=f"file is not a directory(.|\n)*hint: set {key} to a directory"):
            check_paths(load_config(CONFIG_DIRECTORY, [f"{key}={tmp_path / 'file' / 'below' / 'it'}"]))
        check_paths(load_config(CONFIG_DIRECTORY, [f"{key}={tmp_path / 'made' / 'one'}"]))
        assert not (tmp_path / "made").exists()
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(tmp_path))  # whoever tests may write anywhere
    with pytest.raises(ConfigError, match=f"{tmp_path} is not writable"):
        check_paths(load_config(CONFIG_DIRECTORY, [f"trainer.default_local_dir={tmp_path}/rows"]))


@pytest.mark.parametrize(("kind", "table"), [("gpt2", True), ("llama", False)])
def test_a_sequence_longer_than_a_table_of_positions_is_refused(kind, table):
    sizes = {"max_position_embeddings": 16, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    module = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, vocab_size=20, **sizes))
    check_positions(module, "it", OmegaConf.create({"max_prompt_length": 8, "max_response_length": 8}))
    refused = pytest.raises(ConfigError, match="positions for 16 tokens, and a sequence may have 17")
    for lengths in ({"max_prompt_length": 8, "max_response_length": 9}, {"max_length": 17}):
        with refused if table else nothing():
            check_positions(module, "it", OmegaConf.create(lengths))


@pytest.mark.parametrize("form", ["chats", "texts"])
def test_what_does_not_fit_small_data_is_said_at_once_with_the_settings_that_work(
    tmp_path, capsys, engine_settings, form
):
    """A base model has no chat template: texts are encoded as they stand, conversations are not."""
    model = ensure_toy_model(tmp_path / "model", task="text")
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = None
    (model / "chat_template.jinja").unlink(missing_ok=True)
    tokenizer.save_pretrained(model)
    main = importlib.import_module("main").main
    prompts = ["1" * length + "=" for length in range(1, 8)]
    chats = [[{"role": "system", "content": "+"}, {"role": "user", "content": prompt}] for prompt in prompts]
    rows = [{"prompt": prompt, "ground_truth": "2"} for prompt in (chats if form == "chats" else prompts)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = [f"data.{split}_files={tmp_path / 'rows.jsonl'}" for split in ("train", "val")]
    words += [f"actor_rollout_ref.model.path={model}", "data.max_prompt_length=6", "data.max_response_length=4"]
    words += ["actor_rollout_ref.rollout.n=3", "trainer.total_training_steps=1", "trainer.test_freq=-1"]
    words += ["trainer.val_before_train=false", "local.save_last=false", "trainer.logger=[]"]
    words = [*words, *engine_settings(words), f"trainer.default_local_dir={tmp_path / 'run'}"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert ("the tokenizer has no chat template" in said) and ("are encoded as they stand" in said) == (form == "texts")
    longest = 9 if form == "chats" else 8
    for text in (
        f"train prompt 6 has {longest} tokens, more than data.max_prompt_length=6",
        "data.train_batch_size is 1024, and there are 7 training prompts",
        "data.train_batch_size is 7, less than actor_rollout_ref.actor.ppo_mini_batch_size, which is 256",
        "21 responses per optimizer step cannot be cut into passes of 8",
    ):
        assert text in said
    mended = shlex.split(said.rpartition("hint: the same command with ")[2])
    assert main([*words, *mended]) == 0
