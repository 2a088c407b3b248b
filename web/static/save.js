// What the buttons write: charts as SVG and PNG, figures as JSON and CSV.

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

// drawing is an SVG that stands alone.
export function drawing(svg) {
  const copy = svg.cloneNode(true), box = svg.getBoundingClientRect(), known = colors();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  copy.removeAttribute("tabindex");
  for (const tip of copy.querySelectorAll('[aria-label="tip"], [data-mark="tip"]')) tip.remove();
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", "var(--paper)");
  copy.prepend(ground);
  copy.style.fontFamily = "system-ui, sans-serif";
  const text = new XMLSerializer().serializeToString(copy);
  return text.replace(/var\((--[a-z0-9-]+)(?:,[^)]*)?\)/g, (all, name) => known.get(name) ?? "#222").replaceAll("currentColor", known.get("--ink") ?? "#222");
}

// picture is an SVG as PNG, three dots a pixel.
export async function picture(svg) {
  const { width, height } = svg.getBoundingClientRect(), image = new Image();
  const url = URL.createObjectURL(new Blob([drawing(svg)], { type: "image/svg+xml" }));
  try {
    await new Promise((resolve, reject) => { image.onload = resolve; image.onerror = () => reject(new Error("the picture could not be drawn")); image.src = url; });
    const canvas = document.createElement("canvas");
    canvas.width = width * 3;
    canvas.height = height * 3;
    const c = canvas.getContext("2d");
    c.scale(3, 3);
    c.drawImage(image, 0, 0, width, height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally { URL.revokeObjectURL(url); }
}
