// The memory of one GPU as a bar.
import { html } from "./html.js";
import { si } from "./charts.js";
import { kept } from "./kept.js";
import { Panel } from "./panel.js";

const PARTS = [["weights_bytes", "weights"], ["reserve_bytes", "reserve"], ["kv_bytes", "KV cache"], ["state_bytes", "state"], ["activations_bytes", "activations"]]; // as in "llmprof plot memory"

function Bar({ memory, y, name, most }) {
  let x = 0;
  return PARTS.map(([key], i) => {
    const w = (100 * memory[key]) / most, at = x;
    x += w;
    return w > 0 && html`<rect key=${key} x=${`${at}%`} y=${y} width=${`${w}%`} height="22" fill=${`url(#part-${i})`} stroke="var(--paper)"><title>${name} ${PARTS[i][1]}</title></rect>`;
  });
}

const MARKS = ["", "M0,6L6,0", "M3,0V6", "M0,0L6,6", "M0,3H6"];

export const Memory = kept(function Memory({ doc, words, old, oldWords }) {
  const m = doc?.memory, o = old?.memory, most = m ? Math.max(m.total_bytes, m.capacity_bytes, o?.total_bytes ?? 0, o?.capacity_bytes ?? 0) : 1;
  const over = m ? m.total_bytes - m.usable_bytes : 0, textOf = (w, name) => w?.memory.find(([n]) => n === name)?.[1] ?? "", text = (name) => textOf(words, name);
  return html`<${Panel} id="memory" title="Memory of one GPU" wide>
    <svg class="export memory" width="100%" height=${o ? 66 : 38} role="img" aria-label=${m ? `Memory: ${text("total")} of ${text("usable")} usable, ${text("capacity")} in all` : "Memory"}>
      <defs>${PARTS.map((_, i) => html`<pattern key=${i} id=${`part-${i}`} width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill=${`var(--stack-${i})`} /><path d=${MARKS[i]} stroke="var(--paper)" stroke-width="0.8" /></pattern>`)}</defs>
      ${m && html`<${Bar} memory=${m} y="8" name="" most=${most} />
        <rect x="0" y="8" width=${`${(100 * m.capacity_bytes) / most}%`} height="22" fill="none" stroke="var(--ink)" />
        ${over > 0 && html`<rect x=${`${(100 * m.usable_bytes) / most}%`} y="4" width=${`${(100 * over) / most}%`} height="30" fill="none" stroke="var(--alarm)" stroke-width="2" stroke-dasharray="5,3" />`}
        <line x1=${`${(100 * m.usable_bytes) / most}%`} x2=${`${(100 * m.usable_bytes) / most}%`} y1="2" y2="36" stroke="var(--alarm)" stroke-width="2" />`}
      ${m && o && html`<g opacity="0.75"><${Bar} memory=${o} y="40" name="A:" most=${most} /><rect x="0" y="40" width=${`${(100 * o.capacity_bytes) / most}%`} height="22" fill="none" stroke="var(--faint)" stroke-dasharray="5,3" /></g>`}
    </svg>
    <p class="legend columns">${PARTS.map(([key, name], i) => html`<span key=${key} class=${m && !m[key] ? "none" : ""}><svg width="14" height="14" aria-hidden="true"><rect width="14" height="14" fill=${`url(#part-${i})`} /></svg>${name} <b>${text(name)}</b>${o ? html` <small>A ${textOf(oldWords, name)}</small>` : ""}</span>`)}
      <span><i class="limit" aria-hidden="true"></i>usable <b>${text("usable")}</b>${m && ` of ${text("capacity")}`}</span>
      <span>${over > 0 ? html`<b class="no">${si(over, "B")} short</b>` : html`max batch <b>${m?.max_batch ?? ""}</b>${m?.max_tokens ? ` or ${m.max_tokens} tokens` : ""}`}</span></p>
  <//>`;
}, "memory", "doc", "words", "old", "oldWords");
