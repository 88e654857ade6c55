# vextract:template - edit freely
"""The curves of a run show what there is, and nothing else."""

import pytest

from __package__.tracking.plots import PANELS, draw_curves, series

pytest.importorskip("matplotlib")

STEP = {"critic/rewards/mean": 0.5, "actor/entropy": 1.0, "actor/ppo_kl": 0.0, "perf/time_per_step": 2.0}


@pytest.fixture
def titles(tmp_path, monkeypatch):
    """A function from what each step has to the titles of the panels that are drawn."""
    from matplotlib.figure import Figure

    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: (drawn.append(figure), path.touch()))

    def draw(further):
        draw_curves([{"step": step, **STEP, **further} for step in (1, 2)], tmp_path / "curves.png")
        assert (tmp_path / "curves.png").exists()
        return [axis.get_title() for axis in drawn[-1].axes]

    return draw


def test_a_run_without_kl_and_critic_has_no_panels_for_them(titles):
    assert titles({}) == titles({"actor/kl_loss": 0.0}) == ["reward", "entropy", "time per step, s"]


def test_a_run_with_them_has(titles):
    assert titles({"actor/kl_loss": 0.1, "critic/vf_loss": 0.2, "val-core/a/acc/mean@1": 0.5}) == [
        "reward",
        "accuracy",
        "KL divergence",
        "entropy",
        "value loss",
        "time per step, s",
    ]


def test_a_run_in_which_nothing_was_measured_has_an_empty_panel(tmp_path):
    draw_curves([{"step": 1}, {"step": 2}], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_of_a_step_that_was_logged_twice_the_last_counts():
    rows = [{"step": 1, "a": 1.0}, {"step": 1, "a": 2.0}, {"step": 2, "a": float("nan")}]
    assert series(rows, "a") == ([1], [2.0])


def test_panels_fill_the_picture_and_a_single_step_is_seen(tmp_path, monkeypatch):
    seen = {}

    def look(self, path, format):
        seen["figure"] = self
        path.write_bytes(b"")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", look)
    for count in range(1, len(PANELS) + 1):
        names = [next(iter(metrics)) for metrics in list(PANELS.values())[:count]]
        rows = [{"step": 7, **{name + "x/mean@1" * name.endswith("/"): 0.5 for name in names}}]
        draw_curves(rows, tmp_path / "curves.png")
        axes = seen["figure"].axes
        places = [axis.get_subplotspec().get_position(seen["figure"]) for axis in axes]
        rights = {round(place.y0, 2): round(place.x1, 2) for place in sorted(places, key=lambda place: place.x1)}
        assert len(axes) == count
        assert len(set(rights.values())) == 1, rights  # each row ends where the others do
        for axis in axes:
            assert any(line.get_marker() == "o" for line in axis.lines) or axis.collections, axis.get_title()
