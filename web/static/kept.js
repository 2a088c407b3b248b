import { h } from "./libraries.js";

// kept is a view that is drawn again only where one of the named properties is another.
export function kept(View, ...names) {
  return function Kept(props) {
    this.shouldComponentUpdate = (next) => names.some((n) => next[n] !== this.props[n]);
    return h(View, props);
  };
}
