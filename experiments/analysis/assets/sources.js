"use strict";

/* Sources by their titles: those that a message cites by number, those that a search found. */

class Sources {
  /** `titles` are those of the page's sources by id. */
  constructor(titles, trace) {
    this.titles = titles;
    // Turns of a system that searches may each number their sources in another way.
    this.order = trace.lookups?.length ? [] : trace.evidence ?? [];
  }

  /** The title of a source; of a triple of the knowledge graph, its source's. */
  name(id) {
    return this.titles.get(id) ?? this.titles.get(id.replace(/#\d+$/, "")) ?? id;
  }

  names(ids) {
    return [...new Set(ids.map((id) => this.name(id)))].join("; ");
  }

  /** The parts of a text; a number in brackets has its source's title. */
  cited(text) {
    return text.split(/(\[\d{1,4}\])/).map((part) => {
      const id = this.cites(part)[0];
      return id === undefined ? part : make("abbr", { title: this.name(id) }, part);
    });
  }

  /** Ids of the sources with a title that a text cites. */
  cites(text) {
    const numbers = new Set([...text.matchAll(/\[(\d{1,4})\]/g)].map((match) => Number(match[1])));
    return [...numbers].map((number) => this.order[number - 1]).filter((id) => this.titles.has(id));
  }

  searches(lookups) {
    return make("ul", { class: "sources" }, lookups.map(({ base, query, found }) => make("li", null,
      `${base}: “`, make("bdi", null, this.name(query.replace(/^source /, ""))), "” ",
      found?.length ? `found ${count(found.length, "result")}: ${this.names(found)}` : "found nothing")));
  }
}
