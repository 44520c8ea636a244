"use strict";

/* The discussions of this page, in inert script elements as base64 of gzip of JSON: an index with an entry per
   discussion, and chunks of whole traces, which are unpacked when they are needed. */

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

/** The JSON in a packed element. */
async function unpack(id) {
  const text = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

class Discussions {
  /** `groups`: methods and training stages; `entries`: a row per discussion, in the order of the list. */
  constructor({ groups, entries }) {
    this.groups = new Map(groups.map((group) => [group.name, group]));
    this.entries = entries;
    this.byLink = new Map(entries.map((entry) => [link(entry), entry]));
    this.byQuestion = new Map(entries.map((entry) => [entry.question, []]));
    for (const entry of entries) this.byQuestion.get(entry.question).push(entry);
    this.chunks = new Map();
    this.messages = new Map();
  }

  static async open() {
    return new Discussions(await unpack("index"));
  }

  async trace(entry) {
    if (!this.chunks.has(entry.chunk)) {
      if (this.chunks.size > 20) this.chunks.clear();
      this.chunks.set(entry.chunk, unpack(`chunk-${entry.chunk}`));
    }
    return (await this.chunks.get(entry.chunk))[entry.place];
  }

  /** The searchable texts of entries, in lower case; `progress` is called with the share that is unpacked. */
  async texts(entries, progress) {
    const missing = [...new Set(entries.map((entry) => entry.chunk))].filter((chunk) => !this.messages.has(chunk));
    for (const [done, chunk] of missing.entries()) {
      progress(done / missing.length);
      this.messages.set(chunk, (await unpack(`chunk-${chunk}`)).map(spoken));
    }
    return entries.map((entry) => described(entry) + this.messages.get(entry.chunk)[entry.place]);
  }
}

function described(entry) {
  const parts = [entry.question, entry.text, entry.answer, ...(entry.gold ?? []), entry.judged];
  return parts.filter(Boolean).join("\n").toLowerCase() + "\n";
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
