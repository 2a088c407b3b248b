// Bundles the libraries of the page into libraries.js and their licences into LICENSES.txt.
// Run by "make vendor"; what it writes is committed, so that no build needs npm.
import { build } from "esbuild";
import { readFileSync, writeFileSync, readdirSync, existsSync } from "node:fs";

const { metafile } = await build({
  entryPoints: ["entry.js"], bundle: true, minify: true, format: "esm", target: "es2022", outfile: "libraries.js",
  legalComments: "none", metafile: true, banner: { js: "// Third-party libraries; LICENSES.txt names them with their licences." },
});
const packages = new Set();
for (const file of Object.keys(metafile.inputs)) {
  const m = file.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (m) packages.add(m[1]);
}
let text = "The page is bundled from these packages of the npm registry.\n";
for (const name of [...packages].sort()) {
  const dir = `node_modules/${name}`;
  const about = JSON.parse(readFileSync(`${dir}/package.json`));
  const file = readdirSync(dir).find((f) => /^licen[cs]e/i.test(f));
  if (!file && about.license === undefined) throw new Error(`${name} has no licence`);
  text += `\n${"=".repeat(80)}\n${name} ${about.version}: ${about.license}\n\n${file ? readFileSync(`${dir}/${file}`, "utf8").trim() : `Its package names the licence ${about.license} and brings no text of it.`}\n`;
}
writeFileSync("LICENSES.txt", text);
