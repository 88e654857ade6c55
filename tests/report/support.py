"""Runs with known values, and a page in a browser."""

import json
import math
from pathlib import Path
from typing import Any

NASTY = "</script><img src=x onerror=\"document.title='broken in'\"> <b>bold</b> ünï 🦙 &amp;"


def write_run(path: Path, steps: int, speed: float, lr: str = "1e-06", bare: bool = False) -> Path:
    """Write what a run leaves behind: a reward that rises, some of it missing, and samples.

    Args:
        path: its directory.
        steps: how many it has.
        speed: the reward at step s is 1 - exp(-speed s).
        lr: a setting of its config.
        bare: leave out validations, samples, times, config and environment.
    """
    path.mkdir(parents=True, exist_ok=True)
    metrics, generations = [], []
    for step in range(1, steps + 1):
        reward = 1 - math.exp(-speed * step)
        row: dict[str, Any] = {
            "step": step,
            "critic/rewards/mean": reward,
            "critic/rewards/min": reward - 0.5,
            "critic/rewards/max": reward + 0.5,
            "actor/grad_norm": None if step % 50 == 0 else 1 / step,
            "actor/pg_loss": -reward,
            "prompt_length/clip_ratio": 0.0,
            "timing_s/step": 2.0,
            "timing_s/gen": 1.25,
            "timing_s/update_actor": 0.5,
        }
        if not bare:
            row["time"] = 1_790_000_000 + 2.5 * step
        if not bare and step % 10 == 0:
            row["val-core/data/acc/mean@1"] = reward
            row["timing_s/testing"] = 0.75
            for prompt, truth in (("What is 1+1?", "2"), (NASTY, "nothing")):
                sample = {"prompt": prompt, "response": f"At step {step}: {truth} {NASTY}", "ground_truth": truth}
                components = {"acc": reward, "note": NASTY}
                row_of = {"score": float(step > 60), "data_source": "data", "components": components}
                generations.append({"step": step, **sample, **row_of})
        metrics.append(row)
    _write(path / "metrics.jsonl", metrics)
    if not bare:
        _write(path / "generations.jsonl", generations)
        (path / "config.yaml").write_text(f"optim: {{lr: {lr}, name: adamw}}\ntrainer: {{project_name: demo}}\n")
        start = {"time": 1_790_000_000, "step": 0, "total_steps": steps, "command": "python main.py", "python": "3.12"}
        (path / "environment.json").write_text(json.dumps({"starts": [{**start, "end": {"outcome": "finished"}}]}))
    return path


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


class Opened:
    """A page in a browser, and what the browser had to say about it."""

    def __init__(self, browser: Any, address: str, width: int, settings: dict[str, Any]) -> None:
        self.address = address
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page = browser.new_context(viewport={"width": width, "height": 900}, **settings).new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(self.address)

    def chart(self, name: str) -> Any:
        """The figure of a metric, scrolled to and drawn."""
        figure = self.page.locator(f'figure[data-chart="{name}"]')
        figure.scroll_into_view_if_needed()
        figure.locator("svg path").first.wait_for(state="attached")
        return figure

    def curves(self, name: str) -> list[int]:
        """The numbers of the runs whose curves a chart shows."""
        found = self.chart(name).locator("path.curve")
        return [int(path.get_attribute("data-run")) for path in found.all() if path.get_attribute("d")]

    def move_over(self, name: str, share: float) -> None:
        """Put the mouse into a chart, at this share of its width from its y axis."""
        box = self.chart(name).locator(":scope > svg").bounding_box()
        self.page.mouse.move(box["x"] + 52 + share * (box["width"] - 52 - 14), box["y"] + 80)

    def tip(self, name: str) -> list[str]:
        """The lines of a chart's read-out; none if it is hidden."""
        tip = self.page.locator(f'figure[data-chart="{name}"] .tip')
        return (
            [" ".join(line.split()) for line in tip.locator(":scope > *").all_inner_texts()] if tip.is_visible() else []
        )

    def shown(self, selector: str) -> list[str]:
        """The texts of the visible elements."""
        return [part.inner_text() for part in self.page.locator(selector).all() if part.is_visible()]
