"use strict";

/* The discussions of this page: an index with an entry per discussion, and whole traces, which are read when they are
   needed. A source has them: `Packed` in the page itself, `Served` at the server of `view=`. */

/** An HTML element. Children that are strings become text, whatever they hold; null ones are left out. */
function make(tag, attributes, ...children) {
  return built(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function draw(tag, attributes, ...children) {
  return built(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function built(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A table that scrolls in a frame where it is too wide, which a keyboard must reach. */
function framed(name, table) {
  return make("div", { class: "frame", tabindex: 0, role: "region", "aria-label": name }, table);
}

/** The JSON in a packed element: base64 of gzip in an inert script element. */
async function unpack(id) {
  const text = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** Discussions in the page itself, in chunks of traces. */
class Packed {
  constructor() {
    this.chunks = new Map();
    this.messages = new Map();
  }

  index() {
    this.all ??= unpack("index");
    return this.all;
  }

  async pairs() {
    return (await this.index()).pairs;
  }

  learned() {
    return unpack("learned");
  }

  async trace(entry) {
    if (!this.chunks.has(entry.chunk)) {
      if (this.chunks.size > 20) this.chunks.clear();
      this.chunks.set(entry.chunk, unpack(`chunk-${entry.chunk}`));
    }
    return (await this.chunks.get(entry.chunk))[entry.place];
  }

  /** For each of `words`, the entries whose messages hold it. `progress` is called with the share that is read. */
  async texts(entries, words, progress) {
    const missing = [...new Set(entries.map((entry) => entry.chunk))].filter((chunk) => !this.messages.has(chunk));
    for (const [done, chunk] of missing.entries()) {
      progress(done / missing.length);
      this.messages.set(chunk, (await unpack(`chunk-${chunk}`)).map(spoken));
    }
    return words.map((word) => new Set(entries.filter((entry) => this.messages.get(entry.chunk)[entry.place].includes(word))));
  }
}

/** Discussions of a run folder, or of two that are compared, at the server that serves this page. */
class Served {
  constructor() {
    this.compares = location.pathname.endsWith("/compare");
  }

  index(query) {
    return this.all("index.json", query);
  }

  /** How often two methods are right, for every two of them. */
  pairs() {
    return this.all("pairs.json");
  }

  learned() {
    return this.get("learned.json");
  }

  trace(entry) {
    return this.of(entry, "trace.json");
  }

  /** What the agent of a turn received and replied. */
  turn(entry, id) {
    return this.of(entry, "turn.json", { turn: id });
  }

  /** The trace of a discussion that goes on from a turn with another reply. */
  async proceed({ run, of, group, line }, turn, changes) {
    const body = JSON.stringify({ group: of ?? group, line, turn, ...changes });
    const response = await fetch(`${this.at(run)}continue.json`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    if (!response.ok) throw new Error(await response.text());
    return response.json();
  }

  /** The address of a run's data, from the page's own. */
  at(run) {
    return run === undefined ? "" : `run/${run.split("/").map(encodeURIComponent).join("/")}/`;
  }

  /** Data of the run, or of the two runs that the address names. */
  all(name, query) {
    return this.compares ? this.get(`compare/${name}`, location.search) : this.get(name, query);
  }

  /** Data of a discussion, in its own run where two are compared. */
  of({ run, of, group, line }, name, query) {
    return this.get(this.at(run) + name, { group: of ?? group, line, ...query });
  }

  async texts(entries, words, progress) {
    const found = words.map(() => new Set());
    const groups = [...new Set(entries.map((entry) => entry.group))];
    for (const [done, group] of groups.entries()) {
      progress(done / groups.length);
      const own = entries.filter((entry) => entry.group === group);
      const lines = (await this.of(own[0], "texts.json", { words: words.join("\n") })).map((of) => new Set(of));
      for (const [i, of] of lines.entries()) own.filter(({ line }) => of.has(line)).forEach((entry) => found[i].add(entry));
    }
    return found;
  }

  async get(name, query) {
    const response = await fetch(query ? `${name}?${new URLSearchParams(query)}` : name);
    if (!response.ok) throw new Error(await response.text());
    return response.json();
  }
}

class Discussions {
  /** `groups`: methods and training stages; `entries`: a row per discussion, in the order of the list; `sources`: titles by
      id. */
  constructor(source, index) {
    this.source = source;
    this.renew(index);
  }

  /** Takes the discussions that have ended since. False where there are none. */
  async grow() {
    const index = await this.source.index({ after: this.entries.length, version: this.version });
    const goesOn = index.after === this.entries.length;
    if (goesOn && !index.entries.length) return false;
    this.renew({ ...index, entries: goesOn ? [...this.entries, ...index.entries] : index.entries });
    return true;
  }

  renew({ groups, entries, sources = {}, version = "" }) {
    this.version = version;
    this.sources = new Map(Object.entries(sources));
    this.groups = new Map(groups.map((group) => [group.name, group]));
    // Methods may be evaluated at the same time.
    const place = new Map(groups.map(({ name }, i) => [name, i]));
    this.entries = entries.sort((a, b) => place.get(a.group) - place.get(b.group));
    // The scores of a run that goes on do not count turns, and nearly every turn is one call.
    for (const entry of entries) entry.turns ??= entry.calls ?? 0;
    this.byLink = new Map(entries.map((entry) => [link(entry), entry]));
    this.byQuestion = new Map(entries.map((entry) => [entry.question, []]));
    for (const entry of entries) this.byQuestion.get(entry.question).push(entry);
  }

  /** The entries that hold all words, in lower case, in their question, answers or messages. */
  async search(entries, words, progress) {
    const spoken = await this.source.texts(entries, words, progress);
    return entries.filter((entry) => {
      const parts = [entry.question, entry.text, entry.answer, ...(entry.gold ?? []), entry.judged];
      const text = parts.filter(Boolean).join("\n").toLowerCase();
      return words.every((word, i) => text.includes(word) || spoken[i].has(entry));
    });
  }
}

function spoken(trace) {
  const parts = trace.turns.flatMap((turn) => [turn.agent, turn.content, turn.answer, turn.error]);
  return parts.filter(Boolean).join("\n").toLowerCase();
}

/** The address's fragment for a discussion, or for one of its turns. */
function link(entry, turn) {
  return [entry.group, entry.key, ...(turn ? [turn.id] : [])].map(encodeURIComponent).join("/");
}

/** right, partly, wrong, or "" where there is no score. */
function verdict(entry) {
  if (entry.utility === undefined) return "";
  return entry.utility >= 1 ? "right" : entry.utility > 0 ? "partly" : "wrong";
}

const VERDICTS = { right: "✓ right", partly: "◐ partly right", wrong: "✗ wrong", "": "not scored" };

function badge(style, text) {
  return make("span", { class: `badge ${style}` }, text);
}

function count(n, noun) {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}
