import { h, useLayoutEffect } from "./libraries.js";
import { drawn } from "./times.js";
import { cancel, schedule, visible } from "./order.js";

// kept is a view that is drawn again only where one of the named properties is another, and out of the window not
// before those in it. A view without a name counts as in the window. All properties come as one object, since copying
// dozens of them for each view takes longer than comparing those that it depends on.
export function kept(View, name, ...properties) {
  const Drawn = ({ all }) => View(all);
  return function Kept({ all }) {
    this.shouldComponentUpdate = (next) => {
      if (!this.late && !properties.some((n) => next.all[n] !== this.props.all[n])) return false;
      if ((this.late = !visible(name))) schedule(name, `draw ${name}`, () => { this.late = false; this.forceUpdate(); });
      else cancel(`draw ${name}`);
      return !this.late;
    };
    useLayoutEffect(() => drawn(name ?? View.name.toLowerCase()));
    return h(Drawn, { all });
  };
}
