# vextract:template - edit freely
"""Supervised training: what is learned of a demonstration, and that it is learned."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer

from __package__ import load_config
from __package__.data.demonstrations import collate, demonstrations_of
from __package__.data.toy import ensure_toy_model
from __package__.errors import DataError
from __package__.switches import WATCH
from __package__.training.supervised import SupervisedTrainer
from __package__.vendored.protocol import DataProto

ROWS = [{"prompt": "1=", "response": "2"}, {"prompt": "31=", "response": "42"}]
CHAT = [
    {"role": "user", "content": "1="},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "5="},
    {"role": "assistant", "content": "6"},
]
SETTINGS = ("trainer.total_training_steps=20", "trainer.logger=[]", "local.save_last=false")


@pytest.mark.parametrize(("rows", "learned"), [(ROWS, ["2<eos>", "42<eos>"]), ([{"messages": CHAT}], ["2<eos>6<eos>"])])
def test_what_the_assistant_says_is_learned(tmp_path: Path, rows: list[dict[str, object]], learned: list[str]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(ensure_toy_model(tmp_path / "model"))
    demonstrations = demonstrations_of(rows, "train", load_config(config_name="sft"), tokenizer)
    batch = collate([demonstrations[index] for index in range(len(rows))])
    mask = batch["response_mask"].bool()
    assert [tokenizer.decode(row[kept]) for row, kept in zip(batch["responses"], mask, strict=True)] == learned


def test_a_conversation_is_the_same_tokens_whatever_its_rows_were_read_from(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(ensure_toy_model(tmp_path / "model", task="text"))
    tokenizer.chat_template = "{% for m in messages %}{{ m | tojson }}{% endfor %}"
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    chats = [CHAT, [*CHAT[:1], {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "2"}]]
    rows = [{"messages": chat} for chat in chats]
    (tmp_path / "it.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "it.parquet")
    settings = (f"data.cache_dir={tmp_path}", "data.ignore_input_ids_mismatch=true")
    config = load_config(*settings, config_name="sft")
    for form in (rows, tmp_path / "it.jsonl", tmp_path / "it.parquet"):
        found = demonstrations_of(form, "train", config, tokenizer)
        texts = [tokenizer.decode(found[row]["input_ids"]) for row in range(2)]
        assert texts == ["".join(map(json.dumps, chat)) for chat in chats], form
    rows[1]["messages"][2]["content"] = {"a": 1}
    with pytest.raises(DataError, match="row 1, messages, message 2: its content is {'a': 1}"):
        demonstrations_of(rows, "train", config, tokenizer)


def test_the_toy_model_learns_its_demonstrations(tmp_path: Path) -> None:
    config = load_config(*SETTINGS, f"trainer.default_local_dir={tmp_path}", config_name="sft")
    with SupervisedTrainer(config) as trainer:
        before = trainer.evaluate()["val/loss"]
        trainer.fit()
        assert trainer.evaluate()["val/loss"] < before / 2


if WATCH:

    def test_a_batch_that_led_to_no_number_is_written_down_without_rewards(tmp_path: Path) -> None:
        config = load_config(*SETTINGS, f"trainer.default_local_dir={tmp_path}", config_name="sft")
        with SupervisedTrainer(config) as trainer:
            batch = DataProto.from_single_dict(next(iter(trainer.train_loader)))
            log_probs = trainer.policy.compute_log_prob(batch, entropy=False).batch["old_log_probs"]
            where, _ = trainer.suspects.write(batch, log_probs, 1)
            assert "its least likely token" in where
            assert "reward" not in where
            log_probs[3, 0] = float("nan")
            batch.batch["response_mask"][3, 0] = 1
            where, _ = trainer.suspects.write(batch, log_probs, 2)
            assert where.startswith("  sample 3 of step 2: the policy's log-probabilities of it are not finite")
        assert len((tmp_path / "not_finite" / "step_1.jsonl").read_text().splitlines()) == len(batch)
