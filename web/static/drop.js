// What a file that is dropped on the page is, and what becomes of it.

import { finish } from "./order.js";

const WANT = "want a config.json, the header of a .gguf, a result of llmprof measure or a calibration (.toml)";
const LARGEST = 8 << 20, HEADER = 48 << 20; // bytes: of a text, and of a GGUF's header
const DEEPEST = 1000; // brackets within brackets of a JSON, which the browser would read for seconds

const named = (name) => "./" + name.replace(/[^A-Za-z0-9._-]/g, "_").slice(-80);

// nested refuses brackets that are too deep.
function nested(text) {
  let deep = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === "[" || c === "{") { if (++deep > DEEPEST) throw new Error(`nested more than ${DEEPEST} deep`); } else if (c === "]" || c === "}") deep--;
  }
}

export async function opened(files, { set, clients, addFile, second, setOwn, setNote }) {
  for (const file of files) {
    try {
      const note = await one(file, { set, clients, addFile, second, setOwn });
      finish("address"); // it follows the file at once, for to open the link that it has is no change
      setNote(note);
    } catch (e) {
      setNote(`${file.name}: ${e.message}`);
    }
  }
}

async function one(file, { set, clients, addFile, second, setOwn }) {
  const name = named(file.name);
  if (/\.gguf$/i.test(name)) {
    addFile(clients, name, file.slice(0, HEADER), file.size);
    set((s) => { s.flags.model = name; delete s.flags.weights; });
    return `${file.name}: the model of its header.`;
  }
  if (file.size > LARGEST) throw new Error(`${file.size} bytes are too many: ${WANT}`);
  const text = await file.text();
  const take = () => addFile(clients, name, new Blob([text]));
  if (/\.toml$/i.test(name)) {
    take();
    set((s) => { s.flags.calibration = name; });
    return `${file.name}: constants of this file.`;
  }
  nested(text);
  let value;
  try { value = JSON.parse(text); } catch (e) { throw new Error(`it is no JSON (${e.message}): ${WANT}`); }
  const schema = typeof value?.schema === "string" && value.schema.startsWith("llmprof.") ? value.schema : "";
  if (schema.startsWith("llmprof.measure/")) {
    const answer = await second.ask("result " + file.name, { do: "result", file: text, name: file.name });
    setOwn((all) => [...all.filter((o) => o.file !== file.name), ...answer.data.map((o) => ({ ...o, file: file.name }))]);
    const why = answer.text ? ` None is scored: ${answer.text}.` : "";
    return `${file.name}: ${answer.data.length} measured figures are drawn over the predicted ones, where model and lengths are the same.${why}`;
  }
  if (schema) throw new Error(`it is a document ${schema.slice(0, 40)}: ${WANT}`);
  take();
  set((s) => { s.flags.model = name; delete s.flags.weights; });
  return `${file.name}: the model of this config.json.`;
}
