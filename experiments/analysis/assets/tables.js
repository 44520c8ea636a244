"use strict";

/* Tables whose rows are sorted by a click on a column's name: by the number that a cell begins with, else as text. */

function sortKey(cell) {
  const text = cell.textContent.trim();
  const number = text.match(/^[+-]?[\d,]*\.?\d+(e[+-]?\d+)?/i);
  return number ? Number(number[0].replaceAll(",", "")) : text;
}

/** Numbers come first and blanks last, whichever way is up. */
function compared(a, b, sign) {
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a && b ? sign * a.localeCompare(b, "en", { numeric: true }) : Number(a === "") - Number(b === "");
}

addEventListener("click", ({ target }) => {
  const header = target.closest(".sortable th button")?.parentElement;
  if (!header) return;
  const down = header.getAttribute("aria-sort") === "ascending";
  for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = header.closest("table").tBodies[0];
  const rows = [...body.rows].map((row) => [sortKey(row.cells[header.cellIndex]), row]);
  rows.sort(([a], [b]) => compared(a, b, down ? -1 : 1));
  body.append(...rows.map(([, row]) => row));
});
