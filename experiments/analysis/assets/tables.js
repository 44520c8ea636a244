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

for (const table of document.querySelectorAll("table.sortable")) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = header.textContent;
    header.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = header.getAttribute("aria-sort") === "ascending";
      for (const other of headers) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map((row) => [sortKey(row.cells[column]), row]);
      rows.sort(([a], [b]) => compared(a, b, down ? -1 : 1));
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  });
}
