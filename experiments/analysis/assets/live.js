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
    const stays = shown && (section.id === "discussions" || known.get(section.id) === html || shown.contains(document.activeElement));
    if (!stays) {
      known.set(section.id, html);
      if (shown) shown.replaceWith(section);
      else document.querySelector("main").insertBefore(section, next);
      if (section.id === "learning") showLearned(await browsing.discussions.source.learned());
    }
    next = document.getElementById(section.id);
  }
  document.querySelector("body > header nav").replaceWith(body.querySelector("header nav"));
  if (globalThis.browsing) await browsing.grow();
}

/** Listens while the page is looked at: a browser keeps few connections to one server. */
function listen() {
  let events = null, busy = Promise.resolve();
  const run = location.pathname.match(/\/run\/(.+)\/$/)?.[1];
  const address = run ? `${"../".repeat(1 + run.split("/").length)}events?run=${run}` : "events";
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

listen();
