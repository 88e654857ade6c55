# vextract:template - edit freely
"""A data set class of one's own: it is loaded by its name, and what it raises is named."""

import pytest

from __package__.data.datasets import build_datasets
from __package__.errors import DataError
from __package__.hooks import HookError


def test_a_dataset_class_of_ones_own(data_config, tokenizer, tmp_path):
    source = tmp_path / "mine.py"
    source.write_text(
        "from __package__.custom.env_dataset import EnvDataset\n"
        "class Mine(EnvDataset):\n"
        "    seen, lengths = 3, [7]\n"
        "    def __getitem__(self, item):\n"
        "        return {**super().__getitem__(item), 'mine': True}\n"
        "class Broken(EnvDataset):\n"
        "    def __getitem__(self, item):\n"
        "        raise KeyError('state')\n"
    )
    data_config.data.truncation = "left"
    data_config.data.custom_cls = {"path": str(source), "name": "Mine"}
    train, val = build_datasets(data_config, tokenizer)
    assert train[0]["mine"] and val[0]["mine"]
    assert (train.seen, train.lengths) == (3, [7])
    data_config.data.custom_cls.name = "Broken"
    with pytest.raises(HookError, match="raised KeyError: 'state'") as caught:
        build_datasets(data_config, tokenizer)
    assert caught.value.hook_file == f"{source}:8"
    data_config.data.custom_cls.name = "Absent"
    with pytest.raises(DataError, match="has no class 'Absent'"):
        build_datasets(data_config, tokenizer)
