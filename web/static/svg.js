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

// follow makes a drawing like another one and touches nothing that is the same in both: the browser keeps its styles and places.
export function follow(old, now) {
  for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.attributes.length > now.attributes.length) for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name);
  const nodes = [...now.childNodes];
  nodes.forEach((n, i) => {
    const o = old.childNodes[i];
    if (!o) old.append(n);
    else if (o.nodeName !== n.nodeName) o.replaceWith(n);
    else if (n.nodeType !== Node.TEXT_NODE) follow(o, n);
    else if (o.data !== n.data) o.data = n.data;
  });
  while (old.childNodes.length > nodes.length) old.lastChild.remove();
}
