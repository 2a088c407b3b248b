
// Says where something is wider than its box, and takes the shade at the box's
// right end away once that end is reached.
for (const box of document.querySelectorAll(".scroll")) {
  const hint = box.previousElementSibling;
  if (!hint || !hint.classList.contains("hint")) continue;
  const look = () => {
    hint.classList.toggle("shown", box.scrollWidth > box.clientWidth + 1);
    box.classList.toggle("ended", box.scrollLeft + box.clientWidth >= box.scrollWidth - 1);
  };
  box.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(box);
  look();
}

// Sorts a table by the column whose button is pressed: down for numbers and up
// for texts first, then the other way, then as it was.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = Array.from(body.rows);
  const heads = Array.from(table.tHead.rows[0].cells);
  const key = (row, column) => {
    const cell = row.cells[column];
    const value = cell.dataset.value;
    return value === undefined ? cell.textContent.trim() : Number(value);
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? 1 : -1;
    return a.localeCompare(b, "en");
  };
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const rows = original.filter((row) => !row.classList.contains("group"));
      const numbers = rows.some((row) => typeof key(row, column) === "number");
      const order = numbers ? ["descending", "ascending", "none"] : ["ascending", "descending", "none"];
      const now = order[(order.indexOf(head.getAttribute("aria-sort")) + 1) % order.length];
      for (const other of heads) other.setAttribute("aria-sort", "none");
      table.classList.toggle("sorted", now !== "none");
      if (now === "none") {
        body.append(...original);
        return;
      }
      head.setAttribute("aria-sort", now);
      const sign = now === "ascending" ? 1 : -1;
      rows.sort((a, b) => sign * compare(key(a, column), key(b, column)));
      body.append(...rows, ...original.filter((row) => row.classList.contains("group")));
    });
  });
}
