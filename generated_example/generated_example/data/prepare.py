# vextract:template
"""Write datasets as parquet in verl's schema: from the environment, for full verl or for a look at the rows.

python -m <package>.data.prepare --out data [--task succ2] [--val-size 20] [--seed 0]
"""

import argparse
from pathlib import Path

import pyarrow
import pyarrow.parquet

from ..custom.env_dataset import environment_rows


def write_splits(out: Path, settings: dict[str, object]) -> list[Path]:
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
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(environment_rows(split, settings)), files[-1])
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the environment's prompts as parquet in verl's schema.")
    parser.add_argument("--out", type=Path, required=True, help="directory for train.parquet and val.parquet")
    parser.add_argument("--task", default="succ2")
    parser.add_argument("--val-size", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    settings = {"task": arguments.task, "val_size": arguments.val_size, "seed": arguments.seed}
    for file in write_splits(arguments.out, settings):
        print(file)


if __name__ == "__main__":
    main()
