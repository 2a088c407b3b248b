// What the buttons write: charts as SVG and PNG, figures as JSON and CSV.

import { SVG, element } from "./svg.js";

export function save(name, text, type) {
  const url = URL.createObjectURL(text instanceof Blob ? text : new Blob([text], { type }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// colours of the page on light ground, as a file has no style sheet.
function colors() {
  const all = new Map();
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      if (rule.selectorText !== ":root") continue;
      for (const name of rule.style) {
        const value = rule.style.getPropertyValue(name).trim(), m = value.match(/^light-dark\(([^,]+),/);
        if (name.startsWith("--")) all.set(name, m ? m[1] : value);
      }
    }
  }
  return all;
}

// piece is a copy of a drawing of the page, with its size. What can be moved in its window is drawn as a whole.
function piece(svg) {
  const copy = svg.cloneNode(true), { width, height } = svg.getBoundingClientRect();
  for (const name of ["tabindex", "class"]) copy.removeAttribute(name);
  for (const tip of copy.querySelectorAll('[data-mark="tip"]')) tip.remove();
  if (!svg.dataset.whole) return { copy, width, height };
  const [, , wide, high] = svg.dataset.whole.split(" ");
  copy.setAttribute("viewBox", svg.dataset.whole);
  copy.querySelector(":scope > g").removeAttribute("transform");
  return { copy, width: Number(wide), height: Number(high) };
}

const SHAPES = { compute: "M0,0H10V10H0Z", memory: "M5,0A5,5,0,1,1,5,10A5,5,0,1,1,5,0", network: "M5,0L10,5L5,10L0,5Z", launch: "M5,0L10,10H0Z" };

// swatch is the mark of an entry of a legend.
function swatch(mark, x, y) {
  if (mark instanceof SVGElement) { const copy = mark.cloneNode(true); copy.setAttribute("x", x); copy.setAttribute("y", y - 11); return copy; }
  const bound = Object.keys(SHAPES).find((b) => mark.classList.contains(b));
  if (bound) return element("path", { d: SHAPES[bound], transform: `translate(${x},${y - 9})`, fill: `var(--${bound})`, stroke: "var(--ink)" });
  if (mark.textContent) return element("text", { x, y, fill: mark.style.color || "var(--alarm)" }, mark.textContent);
  return element("path", { d: `M${x + 5},${y - 11}v14`, stroke: "var(--alarm)", "stroke-width": 2 });
}

const ruler = document.createElement("canvas").getContext("2d");
const long = (text) => { ruler.font = "12px sans-serif"; return ruler.measureText(text).width; };

// rows puts items of some widths into rows that are so wide.
function rows(items, widthOf, most) {
  const all = [];
  let left = 0;
  for (const item of items) {
    const w = widthOf(item);
    if (!all.length || w > left) { all.push([]); left = most; }
    all.at(-1).push(item);
    left -= w;
  }
  return all;
}

const EDGE = 10, HEAD = 30, LINE = 18;

// drawing is a view as an SVG that stands alone: its title, its drawings beside each other, its legend and the command.
export function drawing(view) {
  const found = view.querySelectorAll("svg.export, .chart svg"), pieces = [...found].filter((s) => !s.parentElement.closest("svg")).map(piece);
  const width = Math.max(pieces.reduce((sum, p) => sum + p.width + EDGE, EDGE), 340), inner = width - 2 * EDGE;
  const all = element("svg", { xmlns: SVG, width, fill: "var(--ink)", "font-size": 12, "font-family": "system-ui, sans-serif", color: "var(--ink)" });
  all.append(element("rect", { width: "100%", height: "100%", fill: "var(--paper)" }), element("text", { x: EDGE, y: 20, "font-size": 14, "font-weight": 600 }, view.querySelector("h2").textContent));
  let x = EDGE, y = HEAD;
  for (const p of pieces) {
    for (const [k, v] of Object.entries({ x, y, width: p.width, height: p.height })) p.copy.setAttribute(k, v);
    all.append(p.copy);
    x += p.width + EDGE;
  }
  y += Math.max(...pieces.map((p) => p.height)) + LINE;
  const entry = (e) => ({ mark: e.firstElementChild, text: [...e.childNodes].slice(e.firstElementChild?.matches("svg, i") ? 1 : 0).map((n) => n.textContent).join("").trim() });
  for (const row of rows([...view.querySelectorAll(".legend > span")].map(entry), (e) => long(e.text) + 44, inner)) {
    let at = EDGE;
    for (const { mark, text } of row) {
      if (mark?.matches("svg, i")) all.append(swatch(mark, at, y));
      all.append(element("text", { x: at + 20, y }, text));
      at += long(text) + 44;
    }
    y += LINE;
  }
  const command = document.querySelector("#verdict .command").textContent.split(" ");
  for (const words of rows(command, (w) => long(`${w} `), inner)) { all.append(element("text", { x: EDGE, y, fill: "var(--faint)" }, words.join(" "))); y += LINE; }
  all.setAttribute("height", y - LINE + EDGE);
  const known = colors(), text = new XMLSerializer().serializeToString(all);
  return text.replace(/var\((--[a-z0-9-]+)(?:,[^)]*)?\)/g, (_, name) => known.get(name) ?? "#222").replaceAll("currentColor", known.get("--ink") ?? "#222");
}

// picture is a view as PNG, three dots a pixel.
export async function picture(view) {
  const text = drawing(view), image = new Image(), url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    await new Promise((resolve, reject) => { image.onload = resolve; image.onerror = () => reject(new Error("the picture could not be drawn")); image.src = url; });
    const canvas = document.createElement("canvas");
    canvas.width = image.width * 3;
    canvas.height = image.height * 3;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally { URL.revokeObjectURL(url); }
}
