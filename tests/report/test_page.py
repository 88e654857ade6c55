"""The page about runs, opened in a browser: it draws, reads out, filters and compares, and asks for nothing."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.running import train
from tests.report.support import NASTY, Opened, write_run

pytestmark = pytest.mark.slow  # a browser
Show = Callable[..., Opened]
Report = Callable[..., Path]
REWARD = "critic/rewards"


def test_a_run_of_the_project(show: Show, report: Report, reporting: Path, tmp_path: Path) -> None:
    rows = train(reporting, "trainer.total_training_steps=4", "trainer.val_before_train=true", "trainer.test_freq=2")
    (run,) = reporting.glob("checkpoints/*/*")
    opened = show(report(tmp_path / "page.html", run))
    metrics = {name for row in rows for name in row} - {"step", "time"}
    parts = opened.page.locator("[data-chart]")
    named = set(parts.evaluate_all("all => all.map(part => part.dataset.chart)"))
    assert {name for name in metrics if name not in named and name.rpartition("/")[0] not in named} == set()
    assert opened.curves(REWARD) == [0]
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    assert "step 4 of 4, finished" in opened.shown("#summary td")
    assert len(opened.shown("#cards .sample")) == 4
    assert "learn nothing" in opened.shown('figure[data-chart="critic/rewards/frac_zero_std"] .note')[0]
    opened.page.locator("#split").select_option("training")
    assert "step 4" in opened.page.locator("#cards").inner_text()
    assert opened.shown("#environment th[scope=row]")[:3] == ["started", "command", "git commit"]
    opened.page.locator("#config input[type=search]").fill("adv_estimator")
    assert opened.shown("#config-table tbody tr") == ["algorithm.adv_estimator\tgrpo"]


def test_every_run_has_its_curves(show: Show, comparison: Path) -> None:
    opened = show(comparison)
    assert opened.page.title() == "3 runs"
    assert opened.curves(REWARD) == [0, 1, 2]
    assert opened.curves("val-core/data/acc/mean@1") == [0, 1]
    groups = opened.page.locator("#groups [data-group]").evaluate_all("all => all.map(one => one.dataset.group)")
    assert groups == ["Reward", "Validation", "Actor", "Lengths", "Timing"]
    # A missing value is a gap: the curve starts anew behind it.
    paths = opened.chart("actor/grad_norm").locator("path.curve").all()
    assert [path.get_attribute("d").count("M") for path in paths] == [3, 3, 2]


def test_the_legend_hides_and_shows_runs(show: Show, comparison: Path) -> None:
    opened = show(comparison)
    second = opened.page.get_by_role("button", name="second", exact=True)
    second.click()
    assert second.get_attribute("aria-pressed") == "false"
    assert opened.curves(REWARD) == [0, 2]
    assert opened.shown(".answer p:first-child") == ["first", "first"]
    second.focus()
    opened.page.keyboard.press("Enter")
    assert opened.curves(REWARD) == [0, 1, 2]
    for name in ("first", "second", "third"):
        opened.page.get_by_role("button", name=name, exact=True).click()
    message = opened.page.locator(f'figure[data-chart="{REWARD}"] text').text_content()
    assert message == "no run is shown that has this"


def test_the_mouse_and_the_keyboard_read_values(show: Show, comparison: Path) -> None:
    opened = show(comparison)
    opened.move_over(REWARD, 0.5)
    step, *lines = opened.tip(REWARD)
    assert step in ("step 60", "step 61")
    at = int(step.split()[1])
    assert [line.split()[0] for line in lines if line] == ["first", "second", "third"]
    first = float(lines[0].split()[1])
    assert first == pytest.approx(1 - 2.718281828 ** (-0.02 * at), rel=1e-3)
    assert lines[0].endswith(f"({first - 0.5:.4g} to {first + 0.5:.4g})")
    opened.page.locator('figure[data-chart="val-core/data/acc/mean@1"] .cursor').wait_for(state="attached")
    opened.page.mouse.move(2, 2)
    assert opened.tip(REWARD) == []
    opened.chart(REWARD).focus()
    seen = []
    for key in ("Home", "ArrowRight", "Shift+ArrowRight", "End", "ArrowLeft"):
        opened.page.keyboard.press(key)
        seen.append(opened.tip(REWARD)[0])
    assert seen == ["step 1", "step 2", "step 12", "step 120", "step 119"]
    opened.page.keyboard.press("Escape")
    assert opened.tip(REWARD) == []


def test_a_run_that_has_ended_has_no_value(show: Show, report: Report, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "short", 8, 0.1), write_run(tmp_path / "long", 60, 0.1)]
    runs.append(write_run(tmp_path / "sparse", 60, 0.2))
    opened = show(report(tmp_path / "page.html", *runs))
    opened.move_over(REWARD, 0.8)
    step, *lines = opened.tip(REWARD)
    assert step == "step 48"
    assert "short ended at step 8" in lines
    assert next(line for line in lines if line.startswith("long")).split()[1] == f"{1 - math.exp(-4.8):.4g}"
    assert opened.chart(REWARD).locator("svg svg circle[r='3.5']").count() == 2


def test_values_of_other_steps_say_so(show: Show, report: Report, tmp_path: Path) -> None:
    for name, first in (("even", 10), ("odd", 14)):
        (tmp_path / name).mkdir()
        rows = [{"step": step, "val-core/d/acc/mean@1": step / 100} for step in range(first, 91, 10)]
        (tmp_path / name / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    opened = show(report(tmp_path / "page.html", tmp_path / "even", tmp_path / "odd"))
    opened.chart("val-core/d/acc/mean@1").focus()
    opened.page.keyboard.press("Home")
    for _ in range(4):
        opened.page.keyboard.press("ArrowRight")
    assert opened.tip("val-core/d/acc/mean@1") == ["step 30", "even 0.3", "odd 0.34 at step 34"]


def test_smoothing_scale_and_x_axis(show: Show, comparison: Path) -> None:
    opened = show(comparison)

    def first_curve(name: str = REWARD) -> str:
        return str(opened.chart(name).locator("path.curve").first.get_attribute("d"))

    smooth = first_curve()
    assert opened.chart(REWARD).locator("path.raw").count() == 3
    opened.page.get_by_label("smoothing").fill("0")
    plain = first_curve()
    assert smooth != plain
    assert opened.chart(REWARD).locator("path.raw").count() == 0
    opened.page.locator("#x").select_option("time")
    assert opened.curves(REWARD) == [0, 1]  # the third run has no times
    opened.move_over(REWARD, 1.0)
    assert opened.tip(REWARD)[0] == "5 min"  # 2.5 s times 120 steps
    opened.page.locator("#x").select_option("step")
    opened.page.get_by_label("log scale", exact=True).check()
    assert first_curve() != plain
    loss = opened.page.locator('figure[data-chart="actor/pg_loss"]')
    loss.scroll_into_view_if_needed()
    assert loss.locator("text").text_content() == "nothing to draw on this scale"
    ticks = opened.chart("actor/grad_norm").locator("text[text-anchor=end]").all_text_contents()
    assert {"0.01", "0.1", "1"} <= set(ticks)


def test_dragging_zooms_all_charts(show: Show, comparison: Path) -> None:
    opened = show(comparison)
    opened.move_over(REWARD, 0.25, drag_to=0.5)
    opened.chart("actor/grad_norm").focus()
    opened.page.keyboard.press("Home")
    (low, *_), _ = opened.tip("actor/grad_norm"), opened.page.keyboard.press("End")
    assert (low, opened.tip("actor/grad_norm")[0]) in [("step 31", "step 60"), ("step 30", "step 60")]
    opened.page.get_by_role("button", name="whole range").click()
    for key, step in (("Home", "step 1"), ("End", "step 120")):
        opened.chart("actor/grad_norm").focus()
        opened.page.keyboard.press(key)
        assert opened.tip("actor/grad_norm")[0] == step
    assert not opened.page.get_by_role("button", name="whole range").is_visible()


def test_searching_metrics(show: Show, comparison: Path) -> None:
    opened = show(comparison)
    opened.page.locator("#find").fill("GRAD")
    assert opened.shown("figure.chart figcaption span")[:1] == ["actor/grad_norm"]
    assert opened.shown("[data-group] > summary") == ["Actor 1"]
    opened.page.locator("#find").fill("nothing like it")
    assert opened.shown("#nofind") == ["No metric has that in its name."]


def test_samples_through_the_run(show: Show, comparison: Path) -> None:
    opened = show(comparison)
    cards = opened.page.locator("#cards .sample")
    assert cards.count() == 2
    assert opened.shown("#count") == ["4 samples"]
    assert "step 120" in cards.first.inner_text()
    assert "score 1" in cards.first.inner_text()
    opened.page.get_by_label("at step").fill("0")
    assert "At step 10: 2" in cards.first.inner_text()
    assert "score 0" in cards.first.inner_text()
    cards.first.locator(".strip").first.locator("[data-step='70']").click()
    assert "At step 70: 2" in cards.first.inner_text()
    opened.page.locator("#mode").select_option("all")
    assert opened.shown("#count") == ["48 samples"]
    opened.page.get_by_label("search").first.fill("step 110: 2")
    assert opened.shown("#count") == ["2 samples"]
    assert opened.page.locator("mark").all_inner_texts() == ["step 110: 2", "step 110: 2"]
    opened.page.get_by_label("score from").fill("1.5")
    assert opened.shown("#count") == ["no sample fits"]


def test_what_a_page_shows_and_how_wide_it_is(show: Show, comparison: Path) -> None:
    """What models write is shown as it is and does nothing; every control has a name."""
    opened = show(comparison)
    nameless = """parts => parts.filter(part => !(part.labels?.length || part.ariaLabel || part.textContent.trim()))
                  .map(part => part.outerHTML)"""
    assert opened.page.locator("input, select, button, figure, [tabindex]").evaluate_all(nameless) == []
    opened.page.locator("#mode").select_option("all")
    assert opened.page.locator("#cards .prompt").all_inner_texts() == ["What is 1+1?", NASTY]
    assert NASTY in opened.page.locator("#cards .answer p").nth(1).inner_text()
    assert opened.page.locator("img, #cards b:has-text('bold')").count() == 0
    assert opened.page.title() == "3 runs"
    assert opened.shown("#config-table tbody tr") == ["optim.lr\t1e-06\t1e-5\tnone"]
    opened.page.get_by_label("only what differs").uncheck()
    assert len(opened.shown("#config-table tbody tr")) == 3
    rights = "all => all.map(part => part.getBoundingClientRect().right)"
    for width in (320, 375, 768, 1440):
        opened.page.set_viewport_size({"width": width, "height": 900})
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width
        assert max(opened.page.locator("figure, .sample, .toolbar > *").evaluate_all(rights)) <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone(show: Show, comparison: Path, scheme: str) -> None:
    opened = show(comparison, width=375, color_scheme=scheme, has_touch=True)
    opened.chart(REWARD).locator(":scope > svg").tap()
    assert opened.tip(REWARD)[0].startswith("step ")
    brightness = opened.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(brightness) < 60) == (scheme == "dark")


def test_an_empty_run(show: Show, report: Report, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/metrics.jsonl").write_text("")
    opened = show(report(tmp_path / "page.html", tmp_path / "run"))
    assert any("Nothing is logged yet" in text for text in opened.shown(".notice"))
    opened = show(report(tmp_path / "both.html", tmp_path / "run", write_run(tmp_path / "other", 1, 0.1)))
    assert opened.page.locator(f'figure[data-chart="{REWARD}"] .dot').count() == 1
