// What the page takes from its libraries.
export { h, render } from "preact";
export { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback } from "preact/hooks";
export { default as htm } from "htm";
export { scaleLog } from "d3-scale";
export { select } from "d3-selection";
export { curveMonotoneX, curveStepBefore, line as path, symbol, symbolCircle, symbolCross, symbolDiamond, symbolSquare, symbolTriangle } from "d3-shape";
export { zoom, zoomIdentity } from "d3-zoom";
export { layout, Graph } from "@dagrejs/dagre";
