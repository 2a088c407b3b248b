import { h, useLayoutEffect } from "./libraries.js";
import { drawn } from "./times.js";
import { drop, due, near } from "./order.js";

// kept is a view that is drawn again only where one of the named properties is another, and not before others
// that are in the window. A view without a name always is.
export function kept(View, name, ...properties) {
  return function Kept(props) {
    this.shouldComponentUpdate = (next) => {
      if (!this.late && !properties.some((n) => next[n] !== this.props[n])) return false;
      if ((this.late = !near(name))) due(name, `draw ${name}`, () => { this.late = false; this.forceUpdate(); });
      else drop(`draw ${name}`);
      return !this.late;
    };
    useLayoutEffect(() => drawn(name ?? View.name.toLowerCase()));
    return h(View, props);
  };
}
