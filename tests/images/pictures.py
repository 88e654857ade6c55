"""Rows with a picture of a square, whose colour is asked for."""

from io import BytesIO
from typing import Any

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 220), "yellow": (230, 220, 30)}


def picture(colour: str, chance: Any) -> Any:
    """A square at a random place, of a random size, on a grey ground, with noise."""
    import numpy as np
    from PIL import Image

    height, width = chance.choice([56, 84], size=2)
    pixels = np.full((height, width, 3), chance.integers(90, 130, size=3), dtype=int)
    side = chance.integers(30, 45)
    top, left = chance.integers(0, height - side + 1), chance.integers(0, width - side + 1)
    pixels[top : top + side, left : left + side] = COLOURS[colour]
    noise = chance.integers(-15, 16, size=pixels.shape)
    return Image.fromarray((pixels + noise).clip(0, 255).astype("uint8"))


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows as a caller gives them, with PIL images."""
    import numpy as np

    chance, names = np.random.default_rng(seed), list(COLOURS)
    return [
        {"prompt": "<image>colour?", "ground_truth": names[n % 4], "images": [picture(names[n % 4], chance)]}
        for n in range(count)
    ]


def stored(row: dict[str, Any]) -> dict[str, Any]:
    """A row in verl's schema, as a parquet file has it: images as bytes."""
    images = []
    for image in row["images"]:
        image.save(file := BytesIO(), "PNG")
        images.append({"bytes": file.getvalue(), "path": None})
    return {
        "data_source": "squares",
        "prompt": [{"role": "user", "content": row["prompt"]}],
        "images": images,
        "ability": "sight",
        "reward_model": {"style": "rule", "ground_truth": row["ground_truth"]},
        "extra_info": {"index": 0},
    }


def is_right(data_source: str, solution_str: str, ground_truth: str, extra_info: Any) -> float:
    """The reward: whether the colour is named."""
    return float(solution_str.strip() == ground_truth)
