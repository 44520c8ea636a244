"use strict";

/* Two methods, question by question: where they agree, where two discussions differ first; one question through all. */

/** The first turn of both whose answers differ, else whose messages do; null where all that both have are the same. */
function firstDifference(one, other) {
  const both = one.turns.filter((turn) => other.byId.has(turn.id)).map((turn) => [turn, other.byId.get(turn.id)]);
  const answer = (turn) => (turn.answer == null ? null : same(turn.answer));
  const pair = both.find(([a, b]) => answer(a) !== answer(b)) ?? both.find(([a, b]) => a.content !== b.content) ?? null;
  if (pair) one.differs = other.differs = pair[0].id;
  return { both: both.length, pair };
}

function differenceNote(base, conversation, labels, { both, pair }) {
  if (!both) return make("p", { class: "note" }, "The two have no turn in common.");
  if (!pair) return make("p", { class: "note" }, `All ${count(both, "turn")} that the two have in common are the same.`);
  return make("p", { class: "note" }, "First difference: ",
    make("a", { href: `#${link(base, pair[0])}` }, conversation.speaker(pair[0])),
    pair.map(({ answer }, i) => make("span", null, `; ${labels[i]}: `, make("bdi", null, answer ?? "no answer"))));
}

/** A row for each method's discussion of the question; a button sets it next to this one. */
function sameQuestion(discussions, entry) {
  const all = discussions.byQuestion.get(entry.question).filter((other) => other.utility !== undefined);
  if (all.length < 2) return null;
  const cells = (other) => [answered(other.answer), badge(verdict(other), VERDICTS[verdict(other)]),
    other.turns.toLocaleString("en"), (other.tokens ?? 0).toLocaleString("en"),
    other === entry ? "" : make("button", { type: "button", "data-versus": other.group }, "compare")];
  const right = all.filter((other) => verdict(other) === "right").length;
  return make("details", { id: "same" },
    make("summary", null, `The same question by ${count(all.length, "method")}: ${right.toLocaleString("en")} right`),
    framed("The same question", make("table", null,
      make("thead", null, make("tr", null, ["method", "answer", "", "turns", "tokens", ""].map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", null, all.map((other) => make("tr", { "aria-current": other === entry ? "true" : null },
        make("th", { scope: "row" }, make("a", { href: `#${link(other)}` }, discussions.groups.get(other.group).label)),
        cells(other).map((cell) => make("td", null, cell))))))));
}

/** "both", "here", "there" or "neither": which of two scored answers are right. */
function agreement(entry, other) {
  if (!other || entry.utility === undefined || other.utility === undefined) return null;
  return [["neither", "there"], ["here", "both"]][Number(entry.utility >= 1)][Number(other.utility >= 1)];
}

/** How often two methods are right, with their paired test; a cell's button filters the list to its questions. */
async function agreementTable(discussions, here, there, chosen) {
  const pair = here && there && (await discussions.source.pairs()).find(({ a, b }) => [a, b].includes(here) && [a, b].includes(there) && a !== b);
  if (!pair) return [];
  const own = pair.a === here;
  const cells = { both: pair.both, here: own ? pair.only_a : pair.only_b, there: own ? pair.only_b : pair.only_a, neither: pair.neither };
  const button = (cell) => make("td", null,
    make("button", { type: "button", "data-cell": cell, "aria-pressed": String(cell === chosen) }, cells[cell].toLocaleString("en")));
  const label = (name) => discussions.groups.get(name).label;
  const row = (name, ...of) => make("tr", null, make("th", { scope: "row" }, name), of.map(button));
  return [
    framed("Agreement", make("table", null, make("caption", null, "Questions that both answered. Choose a number to list them."),
      make("thead", null, make("tr", null, ["", `${label(there)} right`, `${label(there)} wrong`].map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", null, row(`${label(here)} right`, "both", "here"), row(`${label(here)} wrong`, "there", "neither")))),
    make("p", { class: "small" }, pair.test),
  ];
}
