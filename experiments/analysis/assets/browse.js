"use strict";

/* The list of discussions: searched, filtered, shown in pages, and opened by the address. */

const PAGE = 50;

class Browser {
  constructor(discussions) {
    this.discussions = discussions;
    this.filters = new Filters(document.getElementById("filters"), discussions);
    this.search = document.getElementById("search");
    this.list = document.getElementById("list");
    this.status = document.getElementById("count");
    this.article = document.getElementById("discussion");
    this.found = [];
    this.page = 0;
    this.current = null;
    this.turn = undefined;
    this.shown = "";
    this.asked = 0;
    this.listen();
  }

  listen() {
    let timer = 0;
    this.search.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.select(), 150);
    });
    const { form } = this.filters;
    form.addEventListener("change", (event) => event.target !== this.search && this.select());
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      this.filters.set(new URLSearchParams({ group: "" }));
      this.select();
    });
    document.getElementById("back").addEventListener("click", () => this.leaf(-1));
    document.getElementById("on").addEventListener("click", () => this.leaf(1));
    addEventListener("hashchange", () => this.route());
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("click", ({ target }) => {
      if (target.closest(".drawing a")) document.getElementById("discussions").scrollIntoView();
      const { cell, versus } = target.closest("button")?.dataset ?? {};
      if (cell) this.choose({ cell: this.filters.get("cell") === cell ? "" : cell });
      if (versus) this.choose({ versus, group: this.current.group });
    });
  }

  choose(choices) {
    for (const [name, value] of Object.entries(choices)) this.filters.control(name).value = value;
    return this.select();
  }

  key(event) {
    const typing = event.target.closest?.("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      this.search.focus();
    } else if (event.key === "j" || event.key === "k") {
      const { previous, next } = this.steps();
      const to = event.key === "j" ? next : previous;
      if (to) location.hash = link(to);
    }
  }

  /** Applies the filters. Messages are read for the first search. False where a newer call overtook this one. */
  async select() {
    const asked = ++this.asked;
    const words = (this.search.value.toLowerCase().match(/"[^"]+"|\S+/g) ?? []).map((word) => word.replace(/^"(.+)"$/, "$1"));
    const progress = (share) => {
      if (asked === this.asked) this.status.textContent = `Reading messages: ${Math.round(100 * share)}%`;
    };
    const found = await this.filters.pass((entries) => (words.length ? this.discussions.search(entries, words, progress) : entries));
    if (asked !== this.asked) return false;
    this.found = found;
    this.page = Math.max(0, Math.floor(found.indexOf(this.current) / PAGE));
    this.status.textContent = `${found.length.toLocaleString("en")} of ${count(this.discussions.entries.length, "discussion")}`;
    const [group, versus, cell] = ["group", "versus", "cell"].map((name) => this.filters.get(name));
    document.getElementById("agreement").replaceChildren(...await agreementTable(this.discussions, group, versus, cell));
    this.note();
    await this.open();
    return asked === this.asked;
  }

  /** Writes what is shown into the address. */
  note() {
    const path = this.current ? [link(this.current), ...(this.turn === undefined ? [] : [encodeURIComponent(this.turn)])].join("/") : "";
    const query = String(this.filters.state);
    if (path || query || address().params) history.replaceState(null, "", `#${path}${query ? `?${query}` : ""}`);
  }

  /** Takes discussions that have ended since, and leaves the reader where they are. */
  async grow() {
    if (!(await this.discussions.grow())) return;
    const { page, list: { scrollTop } } = this, focused = document.activeElement?.getAttribute("href");
    const { state } = this.filters;
    this.filters.offer();
    this.filters.set(state);
    await this.select();
    this.page = page;
    this.render();
    this.list.scrollTop = scrollTop;
    if (focused) [...this.list.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus({ preventScroll: true });
  }

  leaf(by) {
    this.page += by;
    this.list.scrollTop = 0;
    this.render();
  }

  render() {
    const first = this.page * PAGE;
    const pages = Math.ceil(this.found.length / PAGE);
    const { groups } = this.discussions;
    this.list.start = first + 1;
    const shown = this.found.slice(first, first + PAGE);
    this.list.replaceChildren(...shown.map((entry) => row(entry, groups.get(entry.group).label, entry === this.current)));
    document.getElementById("page").textContent = pages ? `page ${this.page + 1} of ${pages}` : "nothing found";
    document.getElementById("back").disabled = this.page === 0;
    document.getElementById("on").disabled = this.page + 1 >= pages;
    const current = this.list.querySelector("[aria-current]");
    if (current) this.list.scrollTop = current.offsetTop - this.list.clientHeight / 3;
  }

  steps() {
    const at = this.found.indexOf(this.current);
    return { previous: this.found[at - 1], next: this.found[at + 1] };
  }

  /** Shows what the address names; filters stay where it names none. */
  async route() {
    const { parts, params } = address();
    const entry = this.discussions.byLink.get(parts.slice(0, 2).join("/"));
    if (params) this.filters.set(params);
    if (entry) {
      this.current = entry;
      this.turn = parts[2] === undefined ? undefined : decodeURIComponent(parts[2]);
    }
    if (params || !this.asked) {
      if (!(await this.select())) return;
    } else {
      this.note(); // the filters are the same
      await this.open();
    }
    if (entry) this.bring(this.turn);
    else if (parts.length > 1) this.article.replaceChildren(make("p", { class: "note" }, `This page does not carry the discussion ${parts.join("/")}.`));
  }

  /** Draws the current discussion, and the one that it is compared with, unless they are shown already. */
  async open() {
    const at = this.found.indexOf(this.current);
    if (at >= 0) this.page = Math.floor(at / PAGE);
    this.render();
    if (!this.current) return;
    const entries = [this.current, this.filters.rival(this.current)].filter(Boolean);
    const shown = entries.map((entry) => link(entry)).join(" ");
    if (shown === this.shown) return;
    const traces = await Promise.all(entries.map((entry) => this.discussions.source.trace(entry)));
    if (this.current !== entries[0]) return;
    this.shown = shown;
    this.bring = showDiscussion(this.article, this.discussions, entries.map((entry, i) => [entry, traces[i]]), this.steps());
  }

  /** Shows a discussion that went on from an edited turn, next to the recorded one. */
  async showEdited(entry, turn, trace) {
    const { discussions } = this;
    const recorded = await discussions.source.trace(entry);
    const group = discussions.groups.get(entry.group);
    const groups = new Map([...discussions.groups, ["edited", { ...group, label: `${group.label}, ${turn.id} edited`, file: "not recorded" }]]);
    const { question, text, gold, key, tags } = entry;
    const edited = { question, text, gold, key, tags, group: "edited", answer: trace.answer, turns: trace.turns.length, line: "-", edited: true };
    const extended = Object.assign(Object.create(discussions), { groups });
    this.shown = ""; // the next choice draws anew
    this.bring = showDiscussion(this.article, extended, [[entry, recorded], [edited, trace]], this.steps());
    this.bring(turn.id);
  }
}

function row(entry, label, current) {
  const signs = [
    badge(verdict(entry) || "plain", VERDICTS[verdict(entry)]),
    entry.attack ? badge(entry.fooled ? "bad" : "warn", entry.fooled ? "⚠ attack succeeded" : "⚠ attacked") : null,
    entry.failed ? badge("warn", count(entry.failed, "failed turn")) : null,
    entry.cut ? badge("warn", "evidence left out") : null,
  ];
  return make("li", null, make("a", { href: `#${link(entry)}`, "aria-current": current ? "true" : null },
    make("span", { class: "question", dir: "auto" }, entry.text ?? entry.question),
    make("span", { class: "small" }, `${label}${entry.utility === undefined ? `, line ${entry.line}` : ""} · `, answered(entry.answer), " "), signs));
}

async function start() {
  const source = document.getElementById("index") ? new Packed() : new Served();
  const browser = globalThis.browsing = new Browser(new Discussions(source, await source.index()));
  await browser.route();
  if (document.getElementById("learner")) showLearned(await source.learned());
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  document.getElementById("count").textContent = `This browser cannot show the discussions: ${error.message}`;
  throw error;
});
