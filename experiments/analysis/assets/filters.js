"use strict";

/* Filters of the list: each choice has the number of discussions that it would show. The address's fragment has the whole
   state: #method/question/turn?filter=choice&..., each part of it where there is one. */

const FACETS = {
  group: (entry, chosen) => entry.group === chosen,
  result: (entry, chosen) => (chosen === "none" ? entry.answer == null : verdict(entry) === chosen),
  attack: (entry, chosen) => ({
    attacked: entry.attack !== undefined,
    fooled: entry.attack !== undefined && entry.fooled === true,
    resisted: entry.attack !== undefined && entry.fooled === false,
    clean: entry.attack === undefined,
  })[chosen],
  trouble: (entry, chosen) => entry[chosen] > 0,
  size: (entry, chosen) => entry.high.includes(chosen),
};

const SORTS = {
  tokens: (a, b) => (b.tokens ?? 0) - (a.tokens ?? 0),
  turns: (a, b) => b.turns - a.turns,
  utility: (a, b) => (a.utility ?? 2) - (b.utility ?? 2),
};

/** The fragment's path, and its filters where it names any. */
function address() {
  const [path, query] = location.hash.slice(1).split("?");
  return { parts: path.split("/"), params: query === undefined ? null : new URLSearchParams(query) };
}

class Filters {
  constructor(form, discussions) {
    this.form = form;
    this.discussions = discussions;
    this.facets = { ...FACETS };
    this.offer();
  }

  /** Fills the choices from the entries. */
  offer() {
    const { groups, entries } = this.discussions;
    const methods = new Set(entries.filter((entry) => entry.utility !== undefined).map((entry) => entry.group));
    const options = (values, first) => [make("option", { value: "" }, first), ...values.map(([value, text]) => make("option", { value }, text))];
    const labels = [...groups.values()].map(({ name, label }) => [name, label]);
    this.control("group").replaceChildren(...options(labels, "all"));
    this.control("versus").replaceChildren(...options(labels.filter(([name]) => methods.has(name)), "no other"));
    this.control("versus").parentElement.hidden = methods.size < 2;
    this.control("attack").parentElement.hidden = !entries.some((entry) => entry.attack !== undefined);
    const tags = new Map();
    for (const entry of entries) {
      for (const [name, value] of Object.entries(entry.tags ?? {})) tags.set(name, (tags.get(name) ?? new Set()).add(value));
    }
    document.getElementById("tags").replaceChildren(...[...tags].map(([name, values]) => {
      this.facets[`tag:${name}`] = (entry, chosen) => entry.tags?.[name] === chosen;
      const choices = options([...values].sort().map((value) => [value, value]), "any");
      return make("label", null, `${name} `, make("select", { name: `tag:${name}`, "data-tag": name }, choices));
    }));
    for (const group of groups.keys()) this.measure(entries.filter((entry) => entry.group === group));
    this.set(new URLSearchParams());
  }

  /** Marks the entries of a method that have more turns, or more tokens, than nine tenths of them. */
  measure(entries) {
    const ninth = (name) => entries.map((entry) => entry[name] ?? 0).sort((a, b) => a - b)[Math.ceil(0.9 * entries.length) - 1];
    const turns = ninth("turns"), tokens = ninth("tokens");
    for (const entry of entries) {
      entry.high = [entry.turns > turns ? "long" : null, (entry.tokens ?? 0) > tokens ? "dear" : null].filter(Boolean);
    }
  }

  control(name) {
    return this.form.elements.namedItem(name);
  }

  get(name) {
    return this.control(name).value;
  }

  usual(name) {
    const usual = { group: this.form.dataset.shown, versus: this.form.dataset.versus }[name];
    return this.discussions.groups.has(usual) ? usual : "";
  }

  /** The choices that differ from the usual ones, as the address has them. */
  get state() {
    return new URLSearchParams([...new FormData(this.form)].filter(([name, value]) => value !== this.usual(name)));
  }

  set(params) {
    for (const control of this.form.elements) {
      if (!control.name) continue;
      control.value = params.get(control.name) ?? this.usual(control.name);
      if (control.selectedIndex === -1) control.selectedIndex = 0;
    }
  }

  /** The discussion of the same question by the method that is compared; undefined where there is none. */
  rival(entry) {
    const versus = this.get("versus");
    return versus && versus !== entry.group ? this.discussions.byQuestion.get(entry.question).find(({ group }) => group === versus) : undefined;
  }

  /** The entries that pass, sorted. `holds` finds those with the words that are searched. Counts all choices. */
  async pass(holds) {
    const names = Object.keys(this.facets);
    const tests = names.map((name) => [name, this.get(name)]).filter(([, chosen]) => chosen)
      .map(([name, chosen]) => [name, (entry) => this.facets[name](entry, chosen)]);
    const cell = this.get("cell");
    if (cell && this.get("versus")) tests.push(["cell", (entry) => agreement(entry, this.rival(entry)) === cell]);
    // An entry that fails one test alone would be shown by another choice there, and counts for these.
    const failed = new Map(this.discussions.entries.map((entry) => [entry, tests.filter(([, test]) => !test(entry)).map(([name]) => name)]));
    const near = await holds(this.discussions.entries.filter((entry) => failed.get(entry).length < 2));
    for (const name of names) {
      const pool = near.filter((entry) => failed.get(entry).every((other) => other === name));
      for (const option of this.control(name).options) {
        if (!option.value) continue;
        option.dataset.label ??= option.textContent;
        const n = pool.filter((entry) => this.facets[name](entry, option.value)).length;
        option.textContent = `${option.dataset.label} (${n.toLocaleString("en")})`;
      }
    }
    const found = near.filter((entry) => !failed.get(entry).length);
    return SORTS[this.get("sort")] ? found.sort(SORTS[this.get("sort")]) : found;
  }
}
