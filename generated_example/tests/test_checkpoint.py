# vextract:template - edit freely; upgrades merge your edits
"""A resumed run is the run that was not interrupted, bit for bit."""

import pytest
from test_trainer import reproducible

from generated_example.training.tracking import read_rows


def weights(run, step):
    return (run / f"global_step_{step}" / "actor" / "model.safetensors").read_bytes()


def test_resuming_changes_nothing(train, tmp_path):
    options = ("trainer.save_freq=1", "data.shuffle=true")
    whole = train(*options, "trainer.total_training_steps=4")
    halves = train(*options, "trainer.total_training_steps=2")
    train(*options, "trainer.total_training_steps=4", directory=halves)
    rows = [reproducible(read_rows(run / "metrics.jsonl")) for run in (whole, halves)]
    assert rows[0] == rows[1]
    assert weights(whole, 4) == weights(halves, 4)


def test_a_damaged_checkpoint_is_skipped_and_named(train, capsys):
    run = train("trainer.save_freq=1", "trainer.total_training_steps=2")
    (run / "global_step_2" / "actor" / "model.safetensors").write_bytes(b"cut short")
    capsys.readouterr()
    train("trainer.save_freq=1", "trainer.total_training_steps=3", directory=run)
    assert "global_step_2" in capsys.readouterr().err
    assert [row["step"] for row in read_rows(run / "metrics.jsonl")] == [1, 2, 3]


def test_a_checkpoint_is_a_model_that_transformers_loads(train):
    transformers = pytest.importorskip("transformers")
    run = train("trainer.save_freq=1")
    model = transformers.AutoModelForCausalLM.from_pretrained(run / "global_step_1" / "actor")
    tokenizer = transformers.AutoTokenizer.from_pretrained(run / "global_step_1" / "actor")
    ids = tokenizer("37=", return_tensors="pt")["input_ids"]
    assert model(ids).logits.shape == (1, 3, len(tokenizer))
