"use strict";

/* One discussion turn by turn, below its wiring. */

/** Fills `article` with a discussion. Returns `show(id)`, which brings a turn into view (the top without an id). */
function showDiscussion(article, discussions, entry, trace, steps) {
  const conversation = new Conversation(trace);
  const cards = new Map();
  const go = (turn) => { location.hash = link(entry, turn); };
  const { figure, mark } = wiring(conversation, go);
  const rounds = [...new Set(conversation.turns.map((turn) => turn.round))];
  article.replaceChildren(
    heading(entry, steps),
    ...outcome(discussions, entry, trace),
    make("h4", null, "Wiring"),
    figure,
    legend(conversation, entry),
    ...rounds.flatMap((round) => [
      make("h4", null, `Round ${round}`),
      ...conversation.turns.filter((turn) => turn.round === round).map((turn) => {
        const element = card(conversation, entry, turn);
        element.addEventListener("pointerenter", () => mark(turn));
        element.addEventListener("pointerleave", () => mark(null));
        cards.set(turn.id, element);
        return element;
      }),
    ]),
  );
  return (id) => {
    for (const [other, element] of cards) element.classList.toggle("chosen", other === id);
    const target = cards.get(id) ?? article;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: cards.has(id) ? "center" : "start" });
    mark(conversation.byId.get(id) ?? null);
  };
}

function heading(entry, { previous, next }) {
  const step = (to, text) => (to ? make("a", { href: `#${link(to)}` }, text) : make("span", { class: "small" }, text));
  return make("header", null,
    make("nav", { class: "steps", "aria-label": "Neighbours" }, step(previous, "‹ previous"), " ", step(next, "next ›")),
    make("h3", { dir: "auto" }, entry.text ?? entry.question));
}

function outcome(discussions, entry, trace) {
  const group = discussions.groups.get(entry.group);
  const facts = [];
  const add = (name, ...value) => facts.push([name, ...value]);
  const text = (value) => make("bdi", null, value);
  add("Method", group.label);
  add("Question", entry.question);
  add("Answer", answered(entry.answer), badge(verdict(entry) || "plain", VERDICTS[verdict(entry)]));
  if (entry.gold) add("Expected", text(entry.gold.join(" | ")));
  if (entry.utility > 0 && entry.utility < 1) add("Utility", String(entry.utility));
  if (entry.judged !== undefined) add("Judge", entry.grade ? `${entry.grade} of 5: ` : "no grade: ", text(entry.judged));
  if (entry.attack) {
    const on = (trace.attacked ?? []).join(", ") || "the wire or the evidence";
    add("Attack", badge("bad", entry.attack), ` on ${on}`);
  }
  if (trace.target != null) {
    const reached = badge(entry.fooled ? "bad" : "right", entry.fooled ? "reached" : "not reached");
    add("Attack's target", text(trace.target), entry.fooled === undefined ? null : reached);
  }
  if (trace.status && trace.status !== "ok") add("Status", badge("bad", trace.status));
  const cost = [[entry.tokens ?? 0, "token"], [entry.calls ?? 0, "call"], [entry.turns, "turn"], [entry.edges, "edge"]];
  add("Cost", cost.filter(([n]) => n !== undefined).map(([n, noun]) => count(n, noun)).join(", "));
  const tags = Object.entries(entry.tags ?? {}).map(([name, value]) => `${name}: ${value}`);
  if (tags.length) add("Kind", tags.join(", "));

  const further = [];
  if (trace.evidence?.length) further.push(["Evidence", trace.evidence.join(", ")]);
  if (trace.decision?.length) further.push(["Decision read", trace.decision.join(", ")]);
  further.push(["Trace", `${group.file}, line ${entry.line}${entry.sample ? `, sample ${entry.sample}` : ""}`]);

  const others = discussions.byQuestion.get(entry.question)
    .filter((other) => other !== entry && other.utility !== undefined);
  const parts = [list(facts), make("details", null, make("summary", null, "Evidence and trace"), list(further))];
  if (others.length) {
    parts.push(make("p", { class: "small" }, "The same question: ", others.flatMap((other) => [
      make("a", { href: `#${link(other)}` }, discussions.groups.get(other.group).label), ` ${VERDICTS[verdict(other)]} `,
    ])));
  }
  return parts;
}

function list(facts) {
  const items = facts.map(([name, ...value]) => make("div", null, make("dt", null, name), make("dd", null, value)));
  return make("dl", { class: "facts" }, items);
}

function answered(answer) {
  return answer == null ? make("i", null, "none") : make("bdi", { class: "answer" }, answer);
}

/** The answers of all turns, with their signs in the wiring. */
function legend(conversation, entry) {
  const gold = new Set((entry.gold ?? []).map(same));
  const target = conversation.trace.target == null ? null : same(conversation.trace.target);
  const items = [...conversation.opinions].map(([key, opinion]) => make("li", null,
    sign(opinion), make("bdi", null, opinion.text), ` in ${count(opinion.turns, "turn")}`,
    gold.has(key) ? badge("right", "✓ expected") : null,
    key === target ? badge("bad", "attack's target") : null));
  const drawn = ["curves: inside a round; lines: from the round before; dashed: carried nothing"];
  if (conversation.attacked.size) drawn.push("diamonds: attacked agents");
  if (conversation.turns.some((turn) => turn.tampered?.length)) drawn.push("thick: a tampered message");
  return make("div", { class: "legend" }, make("ul", null, items), make("p", { class: "small" }, `${drawn.join("; ")}.`));
}

function sign(opinion) {
  return make("span", { class: `sign ${opinion.style}` }, opinion.sign);
}

function card(conversation, entry, turn) {
  const status = turn.status ?? "ok";
  const opinion = conversation.opinion(turn);
  const tampered = conversation.tampered(turn);
  const attacked = conversation.attacked.has(turn.agent);
  return make("section", { class: `turn ${status}${attacked ? " attacked" : ""}`, tabindex: -1, "aria-label": speaker(turn) },
    make("h5", null,
      make("a", { href: `#${link(entry, turn)}` }, turn.agent),
      attacked ? badge("bad", "⚠ attacked") : null,
      status === "ok" ? null : badge("bad", status),
      tampered.size ? badge("bad", `heard ${count(tampered.size, "tampered message")}`) : null,
      turn.cut?.length ? badge("warn", "evidence left out") : null),
    turn.content ? make("div", { class: "content", dir: "auto" }, turn.content) : null,
    turn.error ? make("p", { class: "error", dir: "auto" }, turn.error) : null,
    make("p", null, "Answer: ", opinion ? sign(opinion) : null, make("b", null, answered(turn.answer)),
      turn.confidence == null ? null : ` (confidence ${turn.confidence.toFixed(2)})`),
    make("dl", { class: "facts small" },
      voices("Heard", (turn.heard ?? []).map((id) => conversation.byId.get(id) ?? id), conversation, entry, tampered),
      voices("Heard by", conversation.heardBy.get(turn.id), conversation, entry, new Set()),
      turn.cut?.length ? make("div", null, make("dt", null, "Left out"), make("dd", null, turn.cut.join(", "))) : null,
      make("div", null, make("dt", null, "Cost"), make("dd", null,
        `${(turn.prompt_tokens ?? 0).toLocaleString("en")} + ${count(turn.completion_tokens ?? 0, "token")}, ${count(turn.calls ?? 0, "call")}`))));
}

/** Links to turns; a message that is not in the trace is shown by its id. */
function voices(name, turns, conversation, entry, tampered) {
  const links = turns.map((turn) => {
    if (typeof turn === "string") return turn;
    const opinion = conversation.opinion(turn);
    return make("a", { href: `#${link(entry, turn)}`, class: "voice" },
      opinion ? sign(opinion) : null,
      `${turn.agent} (${turn.round})`,
      tampered.has(turn.id) ? badge("bad", "tampered") : null);
  });
  const list = links.length ? links.flatMap((voice) => [voice, " "]) : "no agent";
  return make("div", null, make("dt", null, name), make("dd", null, list));
}
