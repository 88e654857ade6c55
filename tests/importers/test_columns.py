"""What copies of a run's code read from a batch, and only the run's own trainer puts there, is said at conversion."""

from __future__ import annotations

from pathlib import Path

import pytest

from extractor.importers.runs.files import Places
from extractor.importers.runs.taken_over import surroundings
from extractor.importers.runs.taken_over.recipient import Recipient
from extractor.values.tree import File, FileKind, Tree
from tests.releases import NEWEST, source_of

TRAINER = 'def step(batch):\n    batch["responses"] = 1\n    return batch["prompts"]\n'
MANAGER = """
class Manager:
    def __call__(self, data):
        for item in data:
            count = item.batch["tool_cnt"] + item.batch["responses"] + item.meta_info["step"]
            if "bonus" in item.batch:
                count += item.batch["bonus"]
            item.batch["acc"] = count
            print({"tool_cnt": item.batch["acc"]}, item.batch["length"], item.non_tensor_batch["turns"], "turns")
"""
SCORER = 'def score(extra_info):\n    return extra_info["tool_cnt"]\n'
DATASET = 'class Mine:\n    def __getitem__(self, index):\n        return {"length": 3}\n'


def said(places: Places, **copies: str) -> list[tuple[str, str, str]]:
    texts = {f"pkg/custom/verl_{name}.py": text for name, text in copies.items()}
    files = [File("pkg/training.py", FileKind.TEMPLATE, TRAINER.encode())]
    files += [File(path, FileKind.HOOK, text.encode()) for path, text in texts.items()]
    project = Recipient(Tree.of(files), "pkg", source_of(NEWEST[-1]), places, {})
    return [(item.key, item.value, item.why) for item in surroundings.take(project, {}).remarks]


WHY = "pkg/custom/verl_manager.py reads it from a batch, where only the trainer of the run's checkout puts it"


@pytest.mark.usefixtures("verl")
def test_what_nobody_makes_is_named_with_the_file_that_reads_it() -> None:
    places = Places(())
    copies = {"manager": MANAGER, "score": SCORER, "dataset": DATASET}
    assert said(places, **copies) == [("batch", "step", WHY), ("batch", "tool_cnt", WHY)]
    del copies["dataset"]
    assert [key for _, key, _ in said(places, **copies)] == ["length", "step", "tool_cnt"]
    assert said(places, score=SCORER) == []


@pytest.mark.usefixtures("verl")
def test_columns_that_the_checkouts_trainer_gives_to_rows(tmp_path: Path) -> None:
    trainer = tmp_path / "verl" / "trainer" / "ppo" / "ray_trainer.py"
    trainer.parent.mkdir(parents=True)
    (tmp_path / "setup.py").write_text("")
    trainer.write_text('def fit(batch):\n    batch.non_tensor_batch["turns"] = 3\n')
    reads = 'def f(data):\n    return data.non_tensor_batch["turns"], data.non_tensor_batch["of_the_data"]\n'
    ((_, key, why),) = said(Places.of(tmp_path / "run.sh", None), manager=reads)
    assert key == "turns"
    assert "only verl/trainer/ppo/ray_trainer.py of the run's checkout gives it" in why
