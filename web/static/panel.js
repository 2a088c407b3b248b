// What views have in common: a panel with its title, and a chart in it.
import { useLayoutEffect, useRef, useState } from "./libraries.js";
import { html } from "./html.js";
import { drawing, picture, save } from "./save.js";
import { put } from "./drawing.js";
import { tells } from "./tips.js";
import { watch } from "./order.js";

// Panel is a view with its title, buttons that save its drawing, and words about it: those on what may be pressed are not
// for paper, and those that come and go stand last, so that no others move.
export function Panel({ id, title, about, press, more, wide, drawn = true, tools, children }) {
  const box = useRef();
  const some = () => box.current.querySelector("svg.export, .chart svg");
  useLayoutEffect(() => watch(box.current), []);
  return html`<section id=${id} class=${wide ? "wide" : ""} aria-labelledby=${`${id}-title`} ref=${box}>
    <div class="head"><h2 id=${`${id}-title`}>${title}</h2>${tools}
      ${drawn && html`<span class="save"><button type="button" aria-label=${`${title}: save as SVG`} onClick=${() => some() && save(`llmprof-${id}.svg`, drawing(box.current), "image/svg+xml")}>SVG</button><button type="button" aria-label=${`${title}: save as PNG`} onClick=${async () => some() && save(`llmprof-${id}.png`, await picture(box.current))}>PNG</button></span>`}
    </div>
    ${about && html`<p class="about">${about}${press && html`<span class="press"> ${press}</span>`}${more}</p>`}
    ${children}
  </section>`;
}

// Chart draws again when what it shows or its width changes, once it is ready; of the drawing that it has it changes what
// is another. Sign marks what is chosen in it, which alone changes where the others stay.
export function Chart({ label, height, draw, on, ready = true, sign, signs = [] }) {
  const box = useRef(), figure = useRef(), [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const size = new ResizeObserver(([e]) => setWidth(Math.floor(e.contentRect.width)));
    size.observe(box.current);
    return () => size.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (width < 50 || !ready) return;
    const now = draw(width, height), old = figure.current;
    for (const g of old?.querySelectorAll(":scope > .marked, :scope > .tip") ?? []) g.remove();
    Object.assign(now.node.attributes, { role: "img", "aria-label": label, ...(now.about.chosen && { cursor: "pointer" }) });
    figure.current = Object.assign(put(now.node, old?.node), now);
    if (!old) box.current.replaceChildren(tells(figure.current));
  }, [width, ready, ...on]);
  useLayoutEffect(() => { if (figure.current) sign?.(figure.current); }, [width, ready, ...on, ...signs]);
  return html`<div class="chart" ref=${box} style=${{ minHeight: `${height}px` }}></div>`;
}
