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
  title(id) {
    return this.titles.get(id) ?? this.titles.get(id.replace(/#\d+$/, ""));
  }

  name(id) {
    return this.title(id) || id;
  }

  /** How many sources, and the titles that are known. */
  counted(ids, noun) {
    const titles = [...new Set(ids.map((id) => this.title(id)))].filter(Boolean);
    return count(ids.length, noun) + (titles.length ? `: ${titles.join("; ")}` : "");
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

  /** A picture as query is recorded as `source <id>`. */
  searches(lookups) {
    return make("ul", { class: "sources" }, lookups.map(({ base, query, found }) => make("li", null,
      `${base}: “`, make("bdi", null, (query.startsWith("source ") && this.title(query.slice(7))) || query), "” ",
      found?.length ? `found ${this.counted(found, "result")}` : "found nothing")));
  }
}
