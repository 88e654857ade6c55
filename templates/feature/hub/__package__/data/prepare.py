# vextract:template
"""Write the prompts as parquet in verl's schema: to train on them from files, for full verl, or for a look at the rows.

    python -m <package>.data.prepare --out data [key=value ...]

The settings under `data.env` say which prompts: data.env.task=add1 and the like, as for main.py. Then

    python main.py data.train_files=data/train.parquet data.val_files=data/val.parquet ...
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from ..custom.env_dataset import environment_rows
from ..output import say
from .files import with_all_columns

CONFIG_DIRECTORY = Path(__file__).resolve().parents[2] / "config"


def write_splits(out: Path, settings: Mapping[str, Any]) -> list[Path]:
    """Write train.parquet and val.parquet.

    Args:
        out: their directory, created if need be.
        settings: as in the config's `data.env`.

    Returns:
        The two files.
    """
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for split in ("train", "val"):
        files.append(out / f"{split}.parquet")
        rows = environment_rows(split, settings)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(with_all_columns(rows)), files[-1])
        say(f"{files[-1]}: {len(rows)} prompts, the first of {rows[0]['data_source']}")
    return files


def main(arguments: list[str]) -> int:
    """Run with these command-line arguments; returns the exit code."""
    from ..errors import report_error
    from ..settings.loading import load_config

    parser = argparse.ArgumentParser(
        prog="prepare", description="Write the prompts as parquet in verl's schema.", epilog="Settings: data.env.*"
    )
    parser.add_argument("--out", type=Path, required=True, help="directory for train.parquet and val.parquet")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="as for main.py")
    chosen = parser.parse_args(arguments)
    try:
        config = load_config(CONFIG_DIRECTORY, ["scale=full", *chosen.settings])  # not the toy model's choice of data
        write_splits(chosen.out, config.data.env)
    except Exception as error:
        return report_error(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
