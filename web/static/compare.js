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
  const moved = [...new Set([...a.keys(), ...b.keys()])].map((k) => ({ k, name: (b.get(k) ?? a.get(k)).name, by: (b.get(k)?.expected_s ?? 0) - (a.get(k)?.expected_s ?? 0) })).sort((x, y) => Math.abs(y.by) - Math.abs(x.by)).slice(0, 6);
  return html`<${Panel} id="compare" title="A and B" wide drawn=${false}>
    <div class="scroll"><table><thead><tr><th scope="col">Setting</th><th scope="col">A (pinned)</th><th scope="col">B (now)</th></tr></thead>
      <tbody>${names.length ? names.map((n) => html`<tr key=${n}><th scope="row">--${n}</th><td>${pin[n] ?? "default"}</td><td>${flags[n] ?? "default"}</td></tr>`) : html`<tr><td colspan="3">Change a setting: every view then shows B beside A.</td></tr>`}</tbody></table></div>
    ${oldError && html`<p class="about"><b class="no">A is not possible</b>: ${oldError}</p>`}
    ${old && moved.some((m) => m.by) && html`<p class="about">A decode step: ${moved.filter((m) => m.by).map((m) => `${m.name} ${m.by > 0 ? "+" : "−"}${si(Math.abs(m.by), "s")}`).join(", ")}.</p>`}
  <//>`;
}, null, "pin", "flags", "old", "oldError", "doc");
