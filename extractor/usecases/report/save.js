// Pictures and tables to take away, made in the page: also of a file, without a network.

const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-size", "text-anchor"];
const FONT = "system-ui, Segoe UI, Roboto, Helvetica Neue, DejaVu Sans, sans-serif";

function download(name, kind, content) {
  const link = element("a", {download: name, href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type: kind}))});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const fileName = (name, ending) => `${name.replace(/[^\w.@-]+/g, "_")}.${ending}`;

// A chart as a picture of its own: its name and runs above it, and in place of the page's styles what they come to.
function pictureOf(chart) {
  if (chart.stale) chart.draw();
  chart.leave();
  const copy = chart.svg.cloneNode(true), parts = [...chart.svg.querySelectorAll("*")];
  [...copy.querySelectorAll("*")].forEach((part, i) => {
    const style = getComputedStyle(parts[i]);
    for (const name of PAINT) part.setAttribute(name, style.getPropertyValue(name));
    part.removeAttribute("class");
    part.removeAttribute("style");
  });
  const page = getComputedStyle(document.documentElement), color = name => page.getPropertyValue(name).trim();
  const shown = data.runs.length > 1 && chart.shown ? chart.shown() : [];
  const top = 30 + 18 * shown.length;
  const picture = element("svg", {xmlns: "http://www.w3.org/2000/svg", width: chart.width, height: chart.height + top,
    viewBox: `0 0 ${chart.width} ${chart.height + top}`, "font-family": FONT});
  picture.append(element("rect", {width: chart.width, height: chart.height + top, fill: color("--card")}),
    element("text", {x: 10, y: 20, "font-size": 14, "font-weight": 600, fill: color("--ink")}, chart.name));
  shown.forEach((line, i) => picture.append(
    element("rect", {x: 10, y: 30 + 18 * i, width: 11, height: 11, rx: 3, fill: color(`--run${line.run % 8}`)}),
    element("text", {x: 27, y: 40 + 18 * i, "font-size": 12, fill: color("--ink")}, data.runs[line.run].name)));
  const body = element("g", {transform: `translate(0 ${top})`});
  body.append(...copy.childNodes);
  picture.append(body);
  return {text: new XMLSerializer().serializeToString(picture), width: chart.width, height: chart.height + top};
}

async function savePng(chart) {
  const {text, width, height} = pictureOf(chart), image = new Image(), canvas = element("canvas", {width: 2 * width, height: 2 * height});
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob(blob => download(fileName(chart.name, "png"), "image/png", blob));
}

// The columns of a chart: of what has a band three.
function columnsOf({name, band}, line) {
  if (!band) return [[name, line.v]];
  return [[`${name}/mean`, line.v], [`${name}/min`, line.lo || line.v], [`${name}/max`, line.hi || line.v]];
}

// A table of charts: a line for each step of each run that is shown. Of a long run a line is the mean of several steps.
function tableOf(charts) {
  const names = [], lines = new Map();
  for (const chart of charts) {
    for (const line of chart.lines) {
      if (view.hidden.has(line.run)) continue;
      const {step, time} = data.runs[line.run].axes[line.axis];
      for (const [name, values] of columnsOf(chart, line)) {
        if (!names.includes(name)) names.push(name);
        values.forEach((value, i) => {
          const key = `${line.run} ${step[i]}`;
          if (!lines.has(key)) lines.set(key, {run: line.run, step: step[i], time: time[i], values: {}});
          lines.get(key).values[name] = value === null ? "nan" : value;
        });
      }
    }
  }
  const quoted = text => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const rows = [...lines.values()].sort((a, b) => a.run - b.run || a.step - b.step)
    .map(({run, step, time, values}) => [data.runs[run].name, step, time ?? "", ...names.map(name => values[name] ?? "")]);
  return [["run", "step", "seconds", ...names], ...rows].map(row => row.map(cell => quoted(String(cell))).join(",") + "\n").join("");
}

function saveMenu(chart) {
  const menu = element("details", {class: "save"}, element("summary", {"aria-label": `Save ${chart.name}`}, "save"));
  const choices = {
    PNG: () => savePng(chart),
    SVG: () => download(fileName(chart.name, "svg"), "image/svg+xml", pictureOf(chart).text),
    CSV: () => download(fileName(chart.name, "csv"), "text/csv", tableOf([chart])),
  };
  menu.append(element("div", {}, ...Object.entries(choices).map(([kind, act]) => {
    const button = element("button", {type: "button", "aria-label": `Save ${chart.name} as ${kind}`}, kind);
    button.addEventListener("click", () => { menu.open = false; act(); });
    return button;
  })));
  const close = event => { if (event && !menu.contains(event)) menu.open = false; };
  document.addEventListener("pointerdown", event => close(event.target));
  menu.addEventListener("focusout", event => close(event.relatedTarget));
  menu.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.firstChild.focus();
  });
  return menu;
}
