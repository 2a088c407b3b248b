// Elements of templates.
import { h, htm } from "./libraries.js";

// html leaves empty texts out: Preact writes them anew whenever a view is drawn, as if they were others, and the browser
// lays out what they stand in.
export const html = htm.bind((type, props, ...children) => h(type, props, ...children.map((c) => (c === "" ? null : c))));
