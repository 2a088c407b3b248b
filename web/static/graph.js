// The model as a graph, laid out by dagre and zoomed by d3.
import { useEffect, useMemo, useRef, Graph, layout, select, zoom, zoomIdentity } from "./libraries.js";
import { html } from "./html.js";
import { letterOf, opKey } from "./charts.js";
import { onPaper } from "./order.js";

const WIDE = 210, HIGH = 46, GAP = 46, HEAD = 40;
const LEGIBLE = 0.75, LEAST = 0.65; // the scale at which texts are read well, and below which they are not

// known are the groups that were laid out, by their shape: most changes leave most of them as they are.
const known = new Map(), MOST = 40;

// within lays out a group by itself from top to bottom.
function within(part, edges, alone) {
  const shape = JSON.stringify([part.nodes.map((n) => n.id), part.sums, edges, alone]);
  if (known.has(shape)) return known.get(shape);
  const g = new Graph();
  g.setGraph({ rankdir: "TB", ranksep: 18, nodesep: 22, marginx: 16, marginy: 14 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const n of part.nodes) g.setNode(n.id, { width: WIDE, height: HIGH });
  for (const s of part.sums) g.setNode(s, { width: 18, height: 18 });
  for (const f of edges) g.setEdge(f.from, f.to, { weight: f.residual ? 0.2 : 2 });
  let last = null; // what flows nowhere stands below what it is listed after
  for (const n of part.nodes) { if (alone.includes(n.id) && last) g.setEdge(last, n.id, {}); last = n.id; }
  layout(g);
  const laid = { ...g.graph(), nodes: g.nodes().map((id) => [id, g.node(id)]), points: edges.map((f) => g.edge(f.from, f.to).points) };
  known.set(shape, laid);
  if (known.size > MOST) known.delete(known.keys().next().value);
  return laid;
}

// arranged places the groups side by side.
function arranged(doc) {
  let x = 0, tall = 0;
  const place = new Map(), groups = [], flowing = new Set(doc.flows.flatMap((f) => [f.from, f.to]));
  for (const part of doc.groups) {
    const own = new Set([...part.nodes.map((n) => n.id), ...part.sums]), edges = doc.flows.filter((f) => own.has(f.from) && own.has(f.to));
    const { width, height, nodes, points } = within(part, edges, part.nodes.map((n) => n.id).filter((id) => !flowing.has(id)));
    for (const [id, p] of nodes) place.set(id, { x: x + p.x, y: HEAD + p.y, width: p.width, height: p.height, group: { x, width } });
    groups.push({ ...part, x, width, height: height + HEAD, edges: edges.map((f, i) => ({ ...f, points: points[i].map((p) => [x + p.x, HEAD + p.y]) })) });
    x += width + GAP;
    tall = Math.max(tall, height + HEAD);
  }
  const inner = new Set(groups.flatMap((g) => g.edges.map((e) => `${e.from} ${e.to}`)));
  const between = doc.flows.filter((f) => place.has(f.from) && place.has(f.to) && !inner.has(`${f.from} ${f.to}`));
  return { groups, place, between, width: x - GAP, height: tall };
}

const path = (points) => "M" + points.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join("L");
const cut = (text, n) => (text.length > n ? text.slice(0, n - 1) + "…" : text);

const operatorsOf = (n) => n.operators.map(([layer, name]) => opKey({ layer, name }));

// shares are what each node of a graph takes of a phase, by what it does and, where several do the same, by their order.
function shares(doc, phase) {
  const all = new Map();
  for (const n of doc?.groups.flatMap((g) => g.nodes) ?? []) {
    const key = n.operators.join();
    all.set(key, [...(all.get(key) ?? []), n[phase]?.share]);
  }
  return all;
}

// beside gives each node its share in A.
function beside(doc, old, phase) {
  const left = shares(old, phase);
  return new Map(doc.groups.flatMap((g) => g.nodes).map((n) => [n.id, left.get(n.operators.join())?.shift()]));
}

export function ModelGraph({ doc, phase, selected, onselect, old }) {
  const svg = useRef(), inner = useRef(), zoomed = useRef(), moved = useRef(false);
  const shape = useMemo(() => JSON.stringify([doc.groups.map((g) => [g.nodes.map((n) => n.id), g.sums]), doc.flows]), [doc]);
  const laid = useMemo(() => arranged(doc), [shape]), flows = useMemo(() => drawnFlows(laid), [laid]);
  let kinds = 0; // that are lettered from left to right, where there are several
  const groups = doc.groups.map((g, i) => ({ ...laid.groups[i], ...g, letter: g.title && doc.strip ? `${String.fromCharCode(97 + kinds++)}: ` : "" })), chosen = groups.flatMap((g) => g.nodes).filter((n) => operatorsOf(n).includes(selected)), was = beside(doc, old, phase);
  const printed = () => svg.current.hasAttribute("viewBox");
  // fit shows the whole graph or, at first, no less than can be read of it: the top, and the layers where it is wider.
  const fit = (legible) => {
    const box = svg.current.getBoundingClientRect(), across = box.width / (laid.width + 20);
    const k = Math.max(Math.min(across, box.height / (laid.height + 20), 1), legible ? Math.min(LEGIBLE, Math.max(across, LEAST)) : 0), layers = groups.find((g) => g.title) ?? { x: 0, width: laid.width };
    const x = laid.width * k <= box.width ? (box.width - laid.width * k) / 2 : Math.min(box.width / 2 - (layers.x + layers.width / 2) * k, 8);
    moved.current = false;
    select(svg.current).call(zoomed.current.transform, zoomIdentity.translate(x, 8).scale(k));
  };
  useEffect(() => {
    zoomed.current = zoom().scaleExtent([0.1, 3]).filter((e) => (e.type === "wheel" ? e.ctrlKey || document.activeElement === svg.current : !e.button))
      .on("zoom", ({ transform, sourceEvent }) => { moved.current ||= !!sourceEvent; inner.current.setAttribute("transform", transform); });
    select(svg.current).call(zoomed.current).on("dblclick.zoom", null);
    // The observer also reports the first size. What the user has moved stays where it is.
    const size = new ResizeObserver(() => { if (!moved.current && !printed()) fit(true); });
    size.observe(svg.current);
    return () => size.disconnect();
  }, [shape]);
  useEffect(() => { // an operator that was chosen elsewhere comes into sight
    const node = inner.current.querySelector(".chosen")?.getBoundingClientRect(), box = svg.current.getBoundingClientRect(), at = laid.place.get(chosen[0]?.id);
    if (node && (node.top < box.top || node.bottom > box.bottom || node.left < box.left || node.right > box.right)) select(svg.current).call(zoomed.current.translateTo, at.x, at.y);
  }, [selected]);
  useEffect(() => { // on paper nobody moves it: the whole is drawn
    let shown;
    return onPaper(() => {
      if (printed()) return;
      shown = inner.current.getAttribute("transform");
      inner.current.removeAttribute("transform");
      svg.current.setAttribute("viewBox", svg.current.dataset.whole);
    }, () => {
      if (!printed()) return;
      inner.current.setAttribute("transform", shown);
      svg.current.removeAttribute("viewBox");
    });
  }, [laid]);
  const whole = () => fit(false);
  const by = (k) => { moved.current = true; select(svg.current).call(zoomed.current.scaleBy, k); };
  const move = (x, y) => { moved.current = true; select(svg.current).call(zoomed.current.translateBy, x, y); };
  const keys = (e) => {
    const act = { "+": () => by(1.25), "=": () => by(1.25), "-": () => by(0.8), 0: whole, ArrowLeft: () => move(60, 0), ArrowRight: () => move(-60, 0), ArrowUp: () => move(0, 60), ArrowDown: () => move(0, -60) }[e.key];
    if (act) { act(); e.preventDefault(); }
  };
  return html`<div class="graph">
    <div class="row tools">
      <button type="button" onClick=${() => by(1.25)} aria-label="Zoom in">+</button>
      <button type="button" onClick=${() => by(0.8)} aria-label="Zoom out">−</button>
      <button type="button" onClick=${whole}>Fit</button>
      <span class="hint">Drag to move; Ctrl and the wheel, or + and −, to zoom. ${doc.strip && `${doc.strip}.`}</span>
    </div>
    <svg ref=${svg} class="export" data-whole=${`-8 -8 ${laid.width + 16} ${laid.height + 16}`} tabindex="0" role="group" aria-label=${`The model as a graph: ${doc.caption}`} onKeyDown=${keys}>
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0L8,4L0,8z" fill="var(--faint)" /></marker></defs>
      <g ref=${inner}>
        ${groups.map((g, i) => g.title && html`<rect key=${i} x=${g.x} y="0" width=${g.width} height=${g.height} rx="4" fill="var(--panel)" stroke="var(--rule)" />`)}
        ${flows[0]}
        ${groups.map((g, i) => html`<g key=${i}>
          ${g.title && html`<text x=${g.x + 10} y="17" font-size="12" font-weight="600" fill="var(--ink)">${cut(g.letter + g.title.split(": ")[0], Math.floor(g.width / 7))}</text>
            <text x=${g.x + 10} y="33" font-size="11" fill="var(--faint)">${cut(g.title.split(": ")[1] ?? "", Math.floor(g.width / 5.6))}</text>`}
          ${flows[i + 1]}
          ${g.nodes.map((n) => html`<${Node} key=${n.id} n=${n} p=${laid.place.get(n.id)} work=${n[phase]} was=${was.get(n.id)} selected=${chosen.includes(n)} onselect=${onselect} />`)}
        </g>`)}
      </g>
    </svg>
  </div>`;
}

const look = (f) => ({ fill: "none", stroke: f.residual ? "var(--ink)" : "var(--faint)", "stroke-width": f.residual ? 1.8 : 1.2, "marker-end": "url(#arrow)" });

// drawnFlows are the flows between the groups, and those of each group with the places where they are added: what no change of a
// workload moves, which Preact leaves as it is where it is the same object.
function drawnFlows({ groups, between, place }) {
  return [
    html`<g>${between.map((f) => {
      const [a, b] = [f.from, f.to].map((id) => place.get(id)), out = a.group.x + a.group.width, into = b.group.x, m = (out + into) / 2;
      return html`<path d=${`M${a.x + a.width / 2},${a.y}H${out}C${m},${a.y} ${m},${b.y} ${into},${b.y}H${b.x - b.width / 2}`} ...${look(f)} />`;
    })}</g>`,
    ...groups.map((g) => html`<g>
      ${g.edges.map((f) => html`<path d=${path(f.points)} stroke-dasharray=${f.branch ? "4,3" : null} ...${look(f)} />`)}
      ${g.sums.map((s) => { const p = place.get(s); return html`<g><circle cx=${p.x} cy=${p.y} r="8" fill="var(--paper)" stroke="var(--ink)" /><path d=${`M${p.x - 4},${p.y}h8M${p.x},${p.y - 4}v8`} stroke="var(--ink)" /></g>`; })}
    </g>`),
  ];
}

function Node({ n, p, work, was, selected, onselect }) {
  const x = p.x - p.width / 2, y = p.y - p.height / 2, share = work?.share ?? 0, bar = Math.max(share * (p.width - 2), work ? 2 : 0);
  const [box, ...texts] = useMemo(() => [
    html`<rect x=${x} y=${y} width=${p.width} height=${p.height} rx="3" fill="var(--paper)" stroke=${selected ? "var(--alarm)" : "var(--faint)"} stroke-width=${selected ? 3 : 1} stroke-dasharray=${n.wire ? "5,3" : null} />`,
    html`<text x=${x + 7} y=${y + 15} font-size="12" font-weight="600" fill="var(--ink)">${cut(n.name, 26)}</text>`,
    html`<text x=${x + 7} y=${y + 31} font-size="11" fill="var(--faint)">${cut([n.shape, n.more].filter(Boolean).join(", "), was !== undefined ? 17 : 23)}</text>`,
  ], [p, n.name, n.shape, n.more, n.wire, selected, was === undefined]);
  return html`<g class=${selected ? "node chosen" : "node"} onClick=${() => onselect(operatorsOf(n))}>
    <title>${n.name} ${n.shape} ${n.more}${work ? `: ${(100 * share).toFixed(1)} % of the phase, ${work.bound}-bound` : ": not in this phase"}</title>
    ${box}
    <rect x=${x + 1} y=${y + p.height - 7} width=${bar} height="6" fill=${work ? `var(--${work.bound})` : "none"} />
    ${texts}
    <text x=${x + p.width - 7} y=${y + 31} font-size="11" text-anchor="end" fill="var(--ink)">${work ? `${was !== undefined ? `A ${(100 * was).toFixed(1)}, ` : ""}${(100 * share).toFixed(1)} % ${letterOf(work.bound)}` : "–"}</text>
  </g>`;
}
