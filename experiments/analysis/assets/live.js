"use strict";

/* Keeps a page of the viewer as its run is: the server says when something has changed, and parts that differ are
   replaced. The list of discussions grows where it is, and no part changes while the reader's focus is in it. */

const known = new Map();

async function refresh(steps) {
  const response = await fetch("?whole");
  if (!response.ok) return;
  const { body } = new DOMParser().parseFromString(await response.text(), "text/html");
  let next = null;
  for (const section of [...body.querySelectorAll("main > section")].reverse()) {
    const shown = document.getElementById(section.id);
    const html = section.id === "learning" ? steps : section.innerHTML;
    const renewed = shown && renewRows(shown, section);
    const stays = renewed || shown && (section.id === "discussions" || known.get(section.id) === html || shown.contains(document.activeElement));
    if (!stays) {
      known.set(section.id, html);
      if (!shown) document.querySelector("main").insertBefore(section, next);
      else shown.replaceWith(section);
      if (section.id === "learning") showLearned(await browsing.discussions.source.learned());
    }
    next = document.getElementById(section.id);
  }
  document.querySelector("body > header nav").replaceWith(body.querySelector("header nav"));
  if (globalThis.browsing) await browsing.grow();
}

/** Renews the rows of a list of runs, by their runs, and leaves all that is equal in its place: a click on a row, a tick
    and the order of the rows stay. False for any other section. */
function renewRows(shown, section) {
  const [before, after] = [shown, section].map((one) => one.querySelector("table:has(input[name=run])"));
  if (!before || !after) return false;
  const rows = new Map([...before.tBodies[0].rows].map((row) => [row.querySelector("input").value, row]));
  for (const row of [...after.tBodies[0].rows].reverse()) {
    const old = rows.get(row.querySelector("input").value);
    rows.delete(row.querySelector("input").value);
    if (!old) before.tBodies[0].prepend(row);
    else [...row.cells].forEach((cell, place) => { if (old.cells[place].innerHTML !== cell.innerHTML) old.cells[place].innerHTML = cell.innerHTML; });
  }
  for (const row of rows.values()) row.remove();
  before.caption.textContent = after.caption.textContent;
  return true;
}

/** Offers the comparison of two runs that are ticked in a list. */
function offerComparison({ target }) {
  if (!target.matches("input[name=run]")) return;
  const ticked = [...document.querySelectorAll("input[name=run]:checked")].map((box) => `run=${encodeURIComponent(box.value)}`);
  document.getElementById("compare")?.remove();
  if (ticked.length !== 2) return;
  const link = document.createElement("a");
  link.id = "compare";
  link.href = `${topOfServer()}compare?${ticked.join("&")}`;
  link.textContent = "Compare the two ticked runs";
  document.body.append(link);
}

/** The address of the list, from this page. */
function topOfServer() {
  const run = location.pathname.match(/\/run\/(.+)\/$/)?.[1];
  return run ? "../".repeat(1 + run.split("/").length) : "";
}

/** Listens while the page is looked at: a browser keeps few connections to one server. */
function listen() {
  let events = null, busy = Promise.resolve();
  const run = location.pathname.match(/\/run\/(.+)\/$/)?.[1];
  const address = `${topOfServer()}events${run ? `?run=${run}` : ""}`;
  const look = () => {
    events?.close();
    events = document.hidden ? null : new EventSource(address);
    if (events) events.onmessage = ({ data }) => { busy = busy.then(() => refresh(data)); };
  };
  addEventListener("visibilitychange", look);
  look();
}

addEventListener("click", ({ target }) => {
  if (!target.matches(".command")) return;
  getSelection().selectAllChildren(target);
  navigator.clipboard?.writeText(target.textContent);
});

addEventListener("change", offerComparison);
listen();
