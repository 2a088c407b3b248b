// What the page takes from its libraries.
export { h, render, Fragment } from "preact";
export { useState, useEffect, useLayoutEffect, useRef, useMemo, useReducer, useCallback } from "preact/hooks";
export { default as htm } from "htm";
export {
  plot, dot, line, areaY, ruleX, ruleY, link, text, tip, pointer, pointerX, barX, stackX, frame, axisX, axisY, gridX, gridY, rect, crosshairX, normalizeX,
} from "@observablehq/plot";
export { select } from "d3-selection";
export { zoom, zoomIdentity } from "d3-zoom";
export { layout, Graph } from "@dagrejs/dagre";
