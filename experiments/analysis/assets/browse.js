"use strict";

/* The list of discussions: searched, filtered, shown in pages, and opened by the address's fragment: #method/question or
   #method/question/turn. */

const PAGE = 50;

const FILTERS = {
  group: (entry, chosen) => entry.group === chosen,
  result: (entry, chosen) => (chosen === "none" ? entry.answer == null : verdict(entry) === chosen),
  attack: (entry, chosen) => ({
    attacked: entry.attack !== undefined,
    fooled: entry.fooled === true,
    resisted: entry.fooled === false,
    clean: entry.attack === undefined,
  })[chosen],
  trouble: (entry, chosen) => entry[chosen] > 0,
};

class Browser {
  constructor(discussions) {
    this.discussions = discussions;
    this.form = document.getElementById("filters");
    this.search = document.getElementById("search");
    this.list = document.getElementById("list");
    this.status = document.getElementById("count");
    this.article = document.getElementById("discussion");
    this.found = [];
    this.page = 0;
    this.current = null;
    this.asked = 0;
    this.offer();
    this.listen();
  }

  /** Fills the choices from the entries. */
  offer() {
    const { groups, entries } = this.discussions;
    const choose = document.getElementById("group");
    choose.append(make("option", { value: "" }, "all"));
    for (const { name, label } of groups.values()) choose.append(make("option", { value: name }, label));
    const { shown } = document.getElementById("index").dataset;
    if (groups.has(shown)) choose.value = shown;
    document.getElementById("attack").parentElement.hidden = !entries.some((entry) => entry.attack !== undefined);
    const tags = new Map();
    for (const entry of entries) {
      for (const [name, value] of Object.entries(entry.tags ?? {})) {
        if (!tags.has(name)) tags.set(name, new Set());
        tags.get(name).add(value);
      }
    }
    for (const [name, values] of tags) {
      const options = [...values].sort().map((value) => make("option", { value }, value));
      const choice = make("select", { "data-tag": name }, make("option", { value: "" }, "any"), options);
      document.getElementById("tags").append(make("label", null, `${name} `, choice));
    }
  }

  listen() {
    let timer = 0;
    this.search.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.select(), 150);
    });
    this.form.addEventListener("change", (event) => event.target !== this.search && this.select());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("reset", () => setTimeout(() => {
      for (const choice of this.form.querySelectorAll("select")) choice.value = "";
      this.select();
    }));
    document.getElementById("back").addEventListener("click", () => this.turn(-1));
    document.getElementById("on").addEventListener("click", () => this.turn(1));
    addEventListener("hashchange", () => this.route());
    addEventListener("keydown", (event) => this.key(event));
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

  /** Applies the form's filters. Messages are unpacked for the first search; a newer search overtakes an older one. */
  async select() {
    const asked = ++this.asked;
    const words = (this.search.value.toLowerCase().match(/"[^"]+"|\S+/g) ?? []).map((word) => word.replace(/^"(.+)"$/, "$1"));
    const choices = Object.entries(FILTERS).map(([id, test]) => [document.getElementById(id).value, test]);
    const tags = [...this.form.querySelectorAll("[data-tag]")]
      .map((choice) => [choice.value, (entry, chosen) => entry.tags?.[choice.dataset.tag] === chosen]);
    const tests = [...choices, ...tags].filter(([chosen]) => chosen);
    let found = this.discussions.entries.filter((entry) => tests.every(([chosen, test]) => test(entry, chosen)));
    if (words.length) {
      found = await this.discussions.search(found, words, (share) => {
        if (asked === this.asked) this.status.textContent = `Reading messages: ${Math.round(100 * share)}%`;
      });
      if (asked !== this.asked) return;
    }
    this.found = found;
    this.page = Math.max(0, Math.floor(found.indexOf(this.current) / PAGE));
    this.status.textContent = `${found.length.toLocaleString("en")} of ${count(this.discussions.entries.length, "discussion")}`;
    this.render();
  }

  turn(by) {
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

  /** Opens the discussion and turn of the address. */
  async route() {
    const parts = location.hash.slice(1).split("/");
    if (parts.length < 2) return;
    const entry = this.discussions.byLink.get(parts.slice(0, 2).join("/"));
    if (!entry) {
      this.article.replaceChildren(make("p", { class: "note" }, `This page does not carry the discussion ${location.hash.slice(1)}.`));
      return;
    }
    if (entry !== this.current) {
      const trace = await this.discussions.trace(entry);
      this.current = entry;
      this.show = showDiscussion(this.article, this.discussions, entry, trace, this.steps());
      const at = this.found.indexOf(entry);
      if (at >= 0) this.page = Math.floor(at / PAGE);
      this.render();
    }
    this.show(parts[2] === undefined ? undefined : decodeURIComponent(parts[2]));
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
  const browser = new Browser(await Discussions.open(new Packed()));
  await browser.select();
  await browser.route();
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  document.getElementById("count").textContent = `This browser cannot show the discussions: ${error.message}`;
  throw error;
});
