// What differs between A, which is pinned, and B.
import { html } from "./html.js";
import { opKey, si } from "./charts.js";
import { kept } from "./kept.js";
import { Panel } from "./panel.js";

export const Compare = kept(function Compare({ pin, flags, old, oldError, doc }) {
  if (!pin) return null;
  const names = [...new Set([...Object.keys(pin), ...Object.keys(flags)])].filter((n) => pin[n] !== flags[n]);
  const ops = (d) => new Map((d?.decode?.ops ?? []).map((o) => [opKey(o), o]));
  const a = ops(old), b = ops(doc);
  const moved = [...new Set([...a.keys(), ...b.keys()])].map((k) => ({ o: b.get(k) ?? a.get(k), by: (b.get(k)?.expected_s ?? 0) - (a.get(k)?.expected_s ?? 0) })).filter((m) => m.by).sort((x, y) => Math.abs(y.by) - Math.abs(x.by)).slice(0, 6);
  const nameOf = ({ name, layer }) => (moved.filter((m) => m.o.name === name).length > 1 && layer ? `${name} (${layer})` : name); // layers of A and B may have operators of one name
  return html`<${Panel} id="compare" title="A and B" wide drawn=${false}>
    <div class="scroll"><table><thead><tr><th scope="col">Setting</th><th scope="col">A (pinned)</th><th scope="col">B (now)</th></tr></thead>
      <tbody>${names.length ? names.map((n) => html`<tr key=${n}><th scope="row">--${n}</th><td>${pin[n] ?? "default"}</td><td>${flags[n] ?? "default"}</td></tr>`) : html`<tr><td colspan="3">Change a setting: every view then shows B beside A.</td></tr>`}</tbody></table></div>
    ${oldError && html`<p class="about"><b class="no">A is not possible</b>: ${oldError}</p>`}
    ${old?.decode && doc?.decode && moved.length > 0 && html`<p class="about">A decode step: ${moved.map((m) => `${nameOf(m.o)} ${m.by > 0 ? "+" : "−"}${si(Math.abs(m.by), "s")}`).join(", ")}.</p>`}
  <//>`;
}, null, "pin", "flags", "old", "oldError", "doc");
