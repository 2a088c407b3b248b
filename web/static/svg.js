// Elements of drawings.
export const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes, text) {
  const e = document.createElementNS(SVG, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text) e.textContent = text;
  return e;
}

const ruler = document.createElement("canvas").getContext("2d"), widths = new Map();
// measured is how wide a text of a chart is.
export function measured(text) {
  if (!widths.size) ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  if (!widths.has(text)) widths.set(text, ruler.measureText(text).width);
  return widths.get(text);
}
