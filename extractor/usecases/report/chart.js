"use strict";
// Charts in SVG. A line is {run, rows, v, lo, hi, per}: values at these rows of the run, null where there is none; of a long
// run a point is the mean of `per` steps.

const data = JSON.parse(document.getElementById("data").textContent);
const view = {x: "step", smooth: 0.6, log: false, zoom: null, hidden: new Set()};
const HEIGHT = 190, WIDE = 380, LEFT = 52, RIGHT = 14, TOP = 8, BOTTOM = 24;

function element(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "rect", "circle"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "color") made.style.setProperty("--color", value);
    else if (value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const runColor = run => `var(--run${run % 8})`;
const runDash = run => [null, "6 3", "2 3", "8 3 2 3"][Math.floor(run / 8) % 4];
const xsOf = line => line[view.x] ??= line.rows.map(row => data.runs[line.run][view.x][row]);
const isShown = line => !view.hidden.has(line.run) && xsOf(line).some(x => x !== null);

function format(value) {
  if (value === null || value === undefined) return "none";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace("e+", "e").replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(4)));
}

// A long name breaks behind a slash.
const parted = name => name.split(/(?<=\/)/).map(part => element("bdi", {}, part));

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const unitFor = seconds => UNITS.find(([, size]) => seconds >= 3 * size) || UNITS[3];

function formatX(value) {
  if (view.x === "step") return `step ${Math.round(value)}`;
  const [name, size] = unitFor(value);
  return `${format(value / size)} ${name}`;
}

function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 2.5, 5, 10].find(factor => factor * power >= rough * 0.999) * power;
  const first = Math.ceil(low / size - 1e-9);
  return Array.from({length: Math.max(0, Math.floor(high / size + 1e-9) - first + 1)}, (_, i) => (first + i) * size);
}

function logTicks(low, high) {
  const exponents = ticks(Math.ceil(low - 1e-9), high, 4).filter(Number.isInteger);
  if (exponents.length > 1) return exponents;
  return [-1, 0, 1].flatMap(up => [1, 2, 5].map(factor => Math.floor(low) + up + Math.log10(factor)))
    .filter(tick => tick >= low && tick <= high);
}

// The exponential moving average, corrected for its start (as Adam's moments are), over the values that there are.
function smoothed(values, weight) {
  let mean = 0, count = 0;
  return values.map(value => {
    if (value === null) return null;
    count += 1;
    mean = weight * mean + (1 - weight) * value;
    return mean / (1 - weight ** count);
  });
}

function nearest(xs, x) {
  let best = -1;
  xs.forEach((other, i) => { if (other !== null && (best < 0 || Math.abs(other - x) < Math.abs(xs[best] - x))) best = i; });
  return best;
}

const closest = (xs, x) => xs[nearest(xs, x)];

// What all charts share: a figure with title, buttons, axes, a cursor that follows mouse and arrow keys, and a read-out.
class Chart {
  static all = [];

  constructor(name, label) {
    this.name = name;
    this.log = null;
    this.tip = element("div", {class: "tip", role: "status", hidden: ""});
    this.svg = element("svg", {"aria-hidden": "true", height: HEIGHT});
    this.caption = element("figcaption", {}, element("span", {}, ...parted(name)));
    this.note = element("p", {class: "note"});
    this.foot = element("div", {class: "foot"}, this.note);
    this.figure = element("figure", {class: "chart", tabindex: "0", role: "group", "data-chart": name,
      "aria-label": `${label}. Arrow keys read values.`}, this.caption, this.svg, this.foot, this.tip);
    this.enlarge = this.button("wide", `Enlarge ${name}`, pressed => { this.figure.classList.toggle("wide", pressed); this.draw(); });
    this.enlarge.className = "enlarge";
    this.svg.addEventListener("pointermove", event => this.point(event));
    this.svg.addEventListener("pointerdown", event => this.begin(event));
    this.svg.addEventListener("pointerup", event => this.end(event));
    this.svg.addEventListener("pointerleave", event => event.pointerType === "mouse" && this.leave());
    this.svg.addEventListener("dblclick", () => setZoom(null));
    this.figure.addEventListener("keydown", event => this.key(event));
    this.figure.addEventListener("blur", () => this.leave());
    this.stale = true;
    Chart.all.push(this);
    Chart.watcher.observe(this.figure);
  }

  static watcher = new IntersectionObserver(entries => {
    for (const {target, isIntersecting} of entries) {
      const chart = Chart.all.find(other => other.figure === target);
      chart.visible = isIntersecting;
      if (isIntersecting && chart.stale) chart.draw();
    }
  }, {rootMargin: "300px"});

  // Those in sight at once, the others when there is time: a page that is printed or saved has all of them.
  static redraw() {
    for (const chart of Chart.all) {
      chart.stale = true;
      if (chart.visible) chart.draw();
    }
    clearTimeout(Chart.waiting);
    Chart.waiting = setTimeout(Chart.drawAll, 300);
  }

  static drawAll() {
    for (const chart of Chart.all) if (chart.stale && chart.figure.clientWidth) chart.draw();
  }

  button(text, label, act) {
    const made = element("button", {type: "button", "aria-pressed": "false", "aria-label": label}, text);
    made.addEventListener("click", () => {
      const pressed = made.getAttribute("aria-pressed") !== "true";
      made.setAttribute("aria-pressed", pressed);
      act(pressed);
    });
    this.foot.append(made);
    return made;
  }

  draw() {
    this.stale = false;
    this.tip.hidden = true;
    this.width = Math.max(200, this.svg.clientWidth || this.figure.clientWidth - 20);
    this.height = this.figure.classList.contains("wide") ? WIDE : HEIGHT;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("height", this.height);
    this.svg.replaceChildren();
    const xs = this.xRange(), ys = this.yRange();
    if (!xs || !ys) return this.say(view.hidden.size ? "no run is shown that has this" : "nothing to draw on this scale");
    const [x0, x1] = view.zoom || xs, [y0, y1] = ys, inner = this.width - LEFT - RIGHT, depth = this.height - TOP - BOTTOM;
    this.x = value => LEFT + inner * (value - x0) / (x1 - x0 || 1);
    this.xAt = place => x0 + (place - LEFT) / inner * (x1 - x0);
    this.y = value => TOP + depth * (y1 - (this.isLog ? Math.log10(value) : value)) / (y1 - y0);
    this.grid(x0, x1, y0, y1);
    this.plot = element("svg", {x: LEFT, y: 0, width: inner, height: this.height - BOTTOM + 3, viewBox: `${LEFT} 0 ${inner} ${this.height - BOTTOM + 3}`});
    this.over = element("g");
    this.svg.append(this.plot);
    this.paint();
    this.plot.append(this.over);
  }

  say(text) {
    this.plot = null;
    this.svg.append(element("text", {x: this.width / 2, y: this.height / 2, "text-anchor": "middle"}, text));
  }

  grid(x0, x1, y0, y1) {
    const [unit, size] = view.x === "time" ? unitFor(x1) : ["step", 1];
    for (const tick of ticks(x0 / size, x1 / size, Math.max(2, this.width / 80))) {
      if (view.x === "step" && !Number.isInteger(tick)) continue;
      const at = {x: this.x(tick * size), y: this.height - 8, "text-anchor": "middle"};
      this.svg.append(element("text", at, view.x === "time" ? `${format(tick)} ${unit}` : format(tick)));
    }
    for (const tick of this.isLog ? logTicks(y0, y1) : ticks(y0, y1, this.height / 40)) {
      const value = this.isLog ? 10 ** tick : tick, y = this.y(value);
      this.svg.append(element("line", {class: "gridline", x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y}));
      const label = Math.abs(value) < (y1 - y0) * 1e-9 && !this.isLog ? "0" : format(value);
      this.svg.append(element("text", {x: LEFT - 6, y: y + 4, "text-anchor": "end"}, label));
    }
    const y = this.height - BOTTOM;
    this.svg.append(element("line", {class: "axis", x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y}));
  }

  point(event) {
    if (!this.plot) return;
    const place = event.clientX - this.svg.getBoundingClientRect().left;
    if (this.from !== undefined && Math.abs(place - this.from) > 6) {
      const [a, b] = [Math.min(place, this.from), Math.max(place, this.from)];
      this.over.replaceChildren(element("rect", {class: "zoom", x: a, y: TOP, width: b - a, height: this.height - TOP - BOTTOM}));
      this.tip.hidden = true;
    } else this.read(this.xAt(place));
  }

  begin(event) {
    if (event.pointerType === "mouse" && this.plot) this.from = event.clientX - this.svg.getBoundingClientRect().left;
    else {
      this.figure.focus({preventScroll: true});  // a finger reads until it touches something else
      this.point(event);
    }
  }

  end(event) {
    const place = event.clientX - this.svg.getBoundingClientRect().left, from = this.from;
    this.from = undefined;
    if (from === undefined || Math.abs(place - from) <= 6) return;
    const [low, high] = [this.xAt(Math.min(from, place)), this.xAt(Math.max(from, place))];
    setZoom([Math.max(low, (view.zoom || this.xRange())[0]), Math.min(high, (view.zoom || this.xRange())[1])]);
  }

  leave() {
    this.tip.hidden = true;
    this.at = this.from = undefined;
    for (const chart of Chart.all) if (chart.plot && chart.over) chart.over.replaceChildren();
  }

  key(event) {
    if (event.target !== this.figure || !this.plot) return;
    const xs = this.points();
    const now = this.at === undefined ? xs.length - 1 : nearest(xs, this.at), far = event.shiftKey ? 10 : 1;
    const moves = {ArrowLeft: this.at === undefined ? now : now - far, ArrowRight: this.at === undefined ? now : now + far, Home: 0, End: xs.length - 1};
    if (event.key === "Escape") this.leave();
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.read(xs[Math.max(0, Math.min(xs.length - 1, moves[event.key]))]);
  }

  read(x) {
    const rows = this.rowsAt(x);
    if (!rows.length) return;
    const at = closest(rows.map(row => row.x), x);
    this.at = at;
    for (const chart of Chart.all) if (chart.visible && chart.plot) chart.mark(at);
    this.tip.replaceChildren(element("b", {}, rows[0].text || formatX(at)), ...rows.map(row => element("div", {},
      element("i", {class: "swatch", color: row.color}), element("span", {}, row.name), element("b", {}, row.value))));
    this.tip.hidden = false;
    // Right of the cursor if the window has room there, and where the curves are not.
    const figure = this.figure.getBoundingClientRect(), svg = this.svg.getBoundingClientRect();
    const left = this.x(at) + 22, room = document.documentElement.clientWidth - figure.left - this.tip.offsetWidth - 4;
    const high = rows.some(row => row.y !== null && row.y !== undefined && this.y(row.y) < this.height / 2);
    this.tip.style.left = `${Math.max(4, left > room ? this.x(at) - this.tip.offsetWidth - 4 : left)}px`;
    this.tip.style.top = `${svg.top - figure.top + Math.max(6, high ? this.height - BOTTOM - this.tip.offsetHeight - 6 : 0)}px`;
  }

  mark(x) {
    this.over.replaceChildren(element("line", {class: "cursor", x1: this.x(x), x2: this.x(x), y1: TOP, y2: this.height - BOTTOM}));
    for (const {x: at, y, color} of this.rowsAt(x)) {
      if (y !== null && y !== undefined) this.over.append(element("circle", {class: "dot", r: 3.5, cx: this.x(at), cy: this.y(y), color}));
    }
  }
}

// A metric of all runs: the smoothed curve above the values as they are. One run alone stands in a band from the least to
// the greatest value; several bands would hide each other.
class Curves extends Chart {
  constructor({name, band, lines, notes, gaps}) {
    super(name, `${name}, ${lines.length === 1 ? "one curve" : `${lines.length} curves`}${band ? ", means in a band from least to greatest" : ""}`);
    this.lines = lines;
    this.band = band;
    this.note.append(notes.join(" "), element("span", {class: "failed"}, ` ${gaps.join(" ")}`));
    this.logButton = this.button("log", `Log scale for ${name}`, pressed => { this.log = pressed; this.draw(); });
    this.note.after(this.logButton);
  }

  get isLog() { return this.log ?? view.log; }

  shown() { return this.lines.filter(isShown); }

  points() {
    const inside = x => x !== null && (!view.zoom || (x >= view.zoom[0] && x <= view.zoom[1]));
    return [...new Set(this.shown().flatMap(line => xsOf(line).filter(inside)))].sort((a, b) => a - b);
  }

  xRange() { return wholeRange(); }

  yRange() {
    this.logButton.setAttribute("aria-pressed", this.isLog);
    let low = Infinity, high = -Infinity;
    const shown = this.shown();
    for (const line of shown) {
      const xs = xsOf(line);
      for (const values of shown.length > 1 ? [line.v] : [line.v, line.lo, line.hi]) {
        values?.forEach((value, i) => {
          if (value === null || xs[i] === null || (this.isLog && value <= 0)) return;
          if (view.zoom && (xs[i] < view.zoom[0] || xs[i] > view.zoom[1])) return;
          low = Math.min(low, value);
          high = Math.max(high, value);
        });
      }
    }
    if (low > high) return null;
    if (this.isLog) [low, high] = [Math.log10(low), Math.log10(high)];
    const spare = high - low > 1e-12 * Math.max(Math.abs(low), Math.abs(high)) ? (high - low) * 0.06 : Math.abs(low) * 0.1 || 1;
    return [low - spare, high + spare];
  }

  path(xs, ys) {
    let path = "", pen = "M", alone = null;
    const dots = [];
    ys.forEach((value, i) => {
      if (value === null || xs[i] === null || (this.isLog && value <= 0)) {
        if (alone !== null) dots.push(alone);
        [pen, alone] = ["M", null];
        return;
      }
      alone = pen === "M" ? i : null;
      path += `${pen}${this.x(xs[i]).toFixed(1)} ${this.y(value).toFixed(1)}`;
      pen = "L";
    });
    return {path, dots: alone === null ? dots : [...dots, alone]};
  }

  area(line, xs) {
    const known = xs.map((x, i) => i).filter(i => xs[i] !== null && line.lo[i] !== null && line.hi[i] !== null && !(this.isLog && line.lo[i] <= 0));
    const to = values => i => `${this.x(xs[i]).toFixed(1)} ${this.y(values[i]).toFixed(1)}`;
    return known.length > 1 ? `M${[...known.map(to(line.hi)), ...known.reverse().map(to(line.lo))].join("L")}Z` : "";
  }

  paint() {
    const shown = this.shown();
    for (const line of shown) {
      const xs = xsOf(line), color = runColor(line.run), sparse = line.v.length <= 50, smooth = !sparse && view.smooth > 0;
      if (line.lo && shown.length === 1) this.plot.append(element("path", {class: "band", d: this.area(line, xs), color}));
      const raw = this.path(xs, line.v);
      if (smooth) this.plot.append(element("path", {class: "raw", d: raw.path, color}));
      const curve = smooth ? this.path(xs, smoothed(line.v, view.smooth)) : raw;
      this.plot.append(element("path", {class: "curve", d: curve.path, color, "data-run": line.run, "stroke-dasharray": runDash(line.run)}));
      for (const i of sparse ? line.v.keys() : raw.dots) {
        if (line.v[i] === null || xs[i] === null || (this.isLog && line.v[i] <= 0)) continue;
        this.plot.append(element("circle", {class: "dot", cx: this.x(xs[i]), cy: this.y(line.v[i]), r: 2.2, color}));
      }
    }
  }

  // The value of each run nearest to x. A run that has ended by then, or has not begun, has none; one from another step says so.
  rowsAt(x) {
    const rows = this.shown().map(line => ({line, xs: xsOf(line), i: nearest(xsOf(line), x)}));
    const at = closest(rows.map(({xs, i}) => xs[i]), x);
    return rows.map(({line, xs, i}) => {
      const row = {x: xs[i], y: null, color: runColor(line.run), name: data.runs.length > 1 ? data.runs[line.run].name : ""};
      const known = xs.filter(x => x !== null), first = known[0], last = known.at(-1), apart = (last - first) / (known.length - 1) || 0;
      if (at < first - apart / 2) return {...row, value: `begins at ${formatX(first)}`};
      if (at > last + apart / 2) return {...row, value: `ended at ${formatX(last)}`};
      const value = line.v[i], said = line.lo && line.lo[i] !== null && value !== null ? `  (${format(line.lo[i])} to ${format(line.hi[i])})` : "";
      const other = xs[i] !== at && !(line.per && Math.abs(xs[i] - at) <= apart) ? `  at ${formatX(xs[i])}` : "";
      return {...row, y: value === null || (this.isLog && value <= 0) ? null : value, value: format(value) + said + other};
    });
  }
}

function wholeRange() {
  let low = Infinity, high = -Infinity;
  data.runs.forEach((run, index) => {
    if (view.hidden.has(index)) return;
    for (const x of run[view.x]) if (x !== null) [low, high] = [Math.min(low, x), Math.max(high, x)];
  });
  if (low > high) return null;
  if (low > 0 && low < 0.05 * high) low = 0;
  return low === high ? [low - 1, high + 1] : [low, high];
}
