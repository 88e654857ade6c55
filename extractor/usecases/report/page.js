// What stands around the charts. Text of models gets into the page as text only, never as HTML.

const find = id => document.getElementById(id);
const listen = (id, kind, act) => find(id)?.addEventListener(kind, act);

function setZoom(range) {
  view.zoom = range && range[1] > range[0] ? range : null;
  find("unzoom").hidden = !view.zoom;
  Chart.redraw();
}

function setUpCurves() {
  const groups = find("groups");
  if (!groups) return;
  for (const {title, charts} of data.groups) {
    const grid = element("div", {class: "grid"}, ...charts.map(chart => new Curves(chart).figure));
    const all = element("details", {"data-group": title}, element("summary", {}, `${title} `, element("small", {})), grid);
    all.open = !["Other"].includes(title);
    all.addEventListener("toggle", () => Chart.redraw());
    groups.append(all);
  }
  listen("x", "change", event => { view.x = event.target.value; setZoom(null); });
  listen("smooth", "input", event => {
    view.smooth = Number(event.target.value);
    event.target.nextElementSibling.value = view.smooth.toFixed(2);
    Chart.redraw();
  });
  listen("log", "change", event => {
    view.log = event.target.checked;
    for (const chart of Chart.all) chart.log = null;
    Chart.redraw();
  });
  listen("find", "input", findMetrics);
  listen("unzoom", "click", () => setZoom(null));
  for (const button of document.querySelectorAll("button.run")) button.addEventListener("click", () => toggleRun(Number(button.dataset.run)));
  const timed = data.runs.some(run => run.time.some(time => time !== null));
  find("x").querySelector("[value=time]").disabled = !timed;
  findMetrics();
}

function findMetrics() {
  const words = find("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = name => words.every(word => name.toLowerCase().includes(word));
  let any = false;
  for (const group of document.querySelectorAll("[data-group]")) {
    const charts = [...group.querySelectorAll("[data-chart]")];
    for (const chart of charts) chart.hidden = !fits(chart.dataset.chart);
    const shown = charts.filter(chart => !chart.hidden).length;
    group.querySelector("small").textContent = shown ? `${shown}` : "";
    group.hidden = !shown;
    if (words.length && !group.hidden) group.open = true;
    any ||= !group.hidden;
  }
  find("nofind").hidden = any;
}

function toggleRun(run) {
  if (!view.hidden.delete(run)) view.hidden.add(run);
  const shown = !view.hidden.has(run);
  document.querySelector(`button.run[data-run="${run}"]`).setAttribute("aria-pressed", shown);
  document.querySelector(`#summary tr[data-run="${run}"]`).classList.toggle("off", !shown);
  Chart.redraw();
  showSamples();
}

const samples = {scores: [0, 1]};
const split = () => data.samples[find("split").value];

function setUpSamples() {
  if (!find("cards")) return;
  listen("split", "input", chooseSplit);
  for (const id of ["mode", "step", "search", "least", "most"]) listen(id, "input", showSamples);
  chooseSplit();
}

function chooseSplit() {
  const {prompts, steps, split: name} = split();
  const scores = prompts.flatMap(prompt => prompt.runs.flat().map(row => row.score)).filter(score => score !== null);
  samples.scores = [scores.reduce((a, b) => Math.min(a, b), 0), scores.reduce((a, b) => Math.max(a, b), 0)];
  for (const hint of document.querySelectorAll("p[data-split]")) hint.hidden = hint.dataset.split !== name;
  find("step").max = steps.length - 1;
  find("step").value = steps.length - 1;
  showSamples();
}

// Text with what was searched for marked in it.
function marked(text, word) {
  if (!word) return [text];
  const parts = [], lower = text.toLowerCase();
  let from = 0;
  // Where lower case has another length, places do not agree: then nothing is marked.
  for (let at; lower.length === text.length && (at = lower.indexOf(word, from)) >= 0; from = at + word.length) {
    parts.push(text.slice(from, at), element("mark", {}, text.slice(at, at + word.length)));
  }
  return [...parts, text.slice(from)];
}

function showSamples() {
  if (!find("cards")) return;
  const {prompts, steps, split: name} = split(), all = find("mode").value === "all", step = steps[find("step").value];
  const word = find("search").value.toLowerCase();
  const [least, most] = ["least", "most"].map(id => find(id).value === "" ? null : Number(find(id).value));
  find("at").hidden = all;
  find("step").nextElementSibling.value = step;
  const has = text => text.toLowerCase().includes(word);
  const fits = row => (least === null || (row.score !== null && row.score >= least)) && (most === null || (row.score !== null && row.score <= most));
  let count = 0;
  const cards = prompts.map(prompt => {
    const inPrompt = has(prompt.prompt) || has(prompt.truth);
    const answers = prompt.runs.map((rows, run) => {
      if (view.hidden.has(run) || !rows.length) return null;
      // A training prompt belongs to its step; those of validations stand there until the next one.
      const now = name === "train" ? step : rows.reduce((last, row) => row.step <= step ? row.step : last, rows[0].step);
      const shown = rows.filter(row => (all || row.step === now) && fits(row) && (inPrompt || has(row.response)));
      count += shown.length;
      return shown.length ? answerOf(run, rows, shown, all ? null : now, word) : null;
    }).filter(Boolean);
    if (!answers.length) return null;
    const truth = prompt.truth ? [element("p", {class: "truth"}, "expected: ", ...marked(prompt.truth, word))] : [];
    return element("article", {class: "sample"}, ...(prompt.source ? [element("h3", {}, prompt.source)] : []),
      element("pre", {class: "prompt"}, ...marked(prompt.prompt, word)), ...truth, element("div", {class: "answers"}, ...answers));
  }).filter(Boolean);
  find("cards").replaceChildren(...cards);
  find("count").textContent = count ? `${count} ${count === 1 ? "sample" : "samples"}` : "no sample fits";
}

function answerOf(run, rows, shown, now, word) {
  const made = element("div", {class: "answer", color: runColor(run)});
  if (data.runs.length > 1) made.append(element("p", {}, element("b", {}, data.runs[run].name)));
  if (split().split !== "train") made.append(stripOf(rows, now));
  for (const row of shown) {
    const parts = row.parts.filter(([name]) => name !== "score").map(([name, value]) => `${name} ${typeof value === "number" ? format(value) : value}`);
    made.append(element("p", {}, element("span", {}, `step ${row.step}`), element("b", {}, `score ${format(row.score)}`),
      ...parts.map(text => element("span", {}, text))));
    made.append(element("pre", {tabindex: row.response.length > 600 && "0"}, ...marked(row.response || "(empty)", word)));
  }
  return made;
}

// A bar for the score of each step; a click goes there.
function stripOf(rows, now) {
  const [low, high] = samples.scores, steps = [...new Set(rows.map(row => row.step))];
  const strip = element("div", {class: "strip", "aria-hidden": "true"});
  for (const step of steps) {
    const known = rows.filter(row => row.step === step && row.score !== null).map(row => row.score);
    const mean = known.reduce((a, b) => a + b, 0) / known.length;
    const bar = element("i", {title: `step ${step}: ${known.length ? format(mean) : "no score"}`, "data-step": step});
    if (step === now) bar.className = "now";
    bar.style.height = `${known.length ? 8 + 92 * (mean - low) / (high - low || 1) : 0}%`;
    strip.append(bar);
  }
  strip.addEventListener("click", event => {
    if (!event.target.dataset.step) return;
    find("step").value = split().steps.indexOf(Number(event.target.dataset.step));
    find("mode").value = "one";
    showSamples();
  });
  return strip;
}

function setUpTables() {
  const show = table => {
    const word = document.querySelector(`[data-filters="${table.id}"]`)?.value.toLowerCase() || "";
    const only = document.querySelector(`[data-differs="${table.id}"]`)?.checked && !word;
    let any = false;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(word) || (only && !row.classList.contains("differs"));
      any ||= !row.hidden;
    }
    const empty = document.querySelector(`[data-empty="${table.id}"]`);
    if (empty) empty.hidden = any;
  };
  for (const input of document.querySelectorAll("[data-filters], [data-differs]")) {
    const table = find(input.dataset.filters || input.dataset.differs);
    input.addEventListener("input", () => show(table));
    show(table);
  }
}

for (const part of document.querySelectorAll("[data-run]")) part.style.setProperty("--color", runColor(Number(part.dataset.run)));
setUpCurves();
setUpSamples();
setUpTables();
Chart.drawAll();
addEventListener("resize", () => Chart.redraw());
