"""The page about runs, opened in a browser: it draws, reads out, filters and compares, and asks for nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.running import train
from tests.report.support import NASTY, Opened

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


def test_smoothing_scale_and_x_axis(show: Show, comparison: Path) -> None:
    opened = show(comparison)

    assert opened.chart(REWARD).locator("path.raw").count() == 3
    opened.page.get_by_label("smoothing").fill("0")
    assert opened.chart(REWARD).locator("path.raw").count() == 0
    opened.page.locator("#x").select_option("time")
    assert opened.curves(REWARD) == [0, 1]  # the third run has no times
    opened.move_over(REWARD, 1.0)
    assert opened.tip(REWARD)[0] == "5 min"  # 2.5 s times 120 steps
    opened.page.locator("#x").select_option("step")
    opened.page.get_by_label("log scale", exact=True).check()
    ticks = opened.chart("actor/grad_norm").locator("text[text-anchor=end]").all_text_contents()
    assert {"0.01", "0.1", "1"} <= set(ticks)


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
