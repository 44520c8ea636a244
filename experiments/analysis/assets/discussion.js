"use strict";

/* One discussion turn by turn, below its wiring, or two of one question next to each other. */

/** Fills `article` with one or two discussions, each an entry with its trace. The address has the first one's turns.
    Returns `show(id)`, which brings a turn into view (the top without an id). */
function showDiscussion(article, discussions, shown, steps) {
  const [base] = shown[0];
  const conversations = [];
  for (const [, trace] of shown) conversations.push(new Conversation(trace, conversations[0]?.opinions));
  const difference = shown.length > 1 ? firstDifference(...conversations) : null;
  const panels = shown.map(([entry], i) => panel(discussions, entry, base, conversations[i]));
  article.replaceChildren(...[
    heading(base, steps),
    sameQuestion(discussions, base),
    difference ? differenceNote(base, conversations[0], shown.map(([{ group }]) => discussions.groups.get(group).label), difference) : null,
    make("div", { class: difference ? "sides" : null }, panels.map(({ element }) => element)),
  ].filter(Boolean));
  return (id) => {
    for (const { choose } of panels) choose(id);
    const target = panels.map(({ cards }) => cards.get(id)).find(Boolean) ?? article;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: target === article ? "start" : "center" });
  };
}

const REPLACED = { counterpart: "Were it honest", silence: "Were it silent", sample: "With another seed" };

function panel(discussions, entry, base, conversation) {
  conversation.explained = entry.explained;
  const cards = new Map();
  const sources = new Sources(discussions.sources, conversation.trace);
  const { figure, mark } = wiring(conversation, (turn) => { location.hash = link(base, turn); });
  const carded = (turn) => {
    const element = card(conversation, sources, base, turn);
    element.addEventListener("pointerenter", () => mark(turn));
    element.addEventListener("pointerleave", () => mark(null));
    cards.set(turn.id, element);
    return element;
  };
  const turns = conversation.stepwise
    ? conversation.turns.map(carded)
    : conversation.rounds.flatMap((round) => [
      make("h4", null, conversation.heading(round)),
      ...conversation.turns.filter((turn) => turn.round === round).map(carded),
    ]);
  const element = make("div", { class: "side" }, outcome(discussions, entry, conversation, sources), make("h4", null, "Who heard whom"), figure,
    answersByRound(conversation, entry), turns);
  async function choose(id) {
    for (const [other, card] of cards) card.classList.toggle("chosen", other === id);
    mark(conversation.byId.get(id) ?? null);
    const place = cards.get(id);
    // The prompt, the reply and the sources of a turn are rebuilt by a server alone.
    if (!place || place.dataset.opened || !discussions.source.turn || entry.edited) return;
    place.dataset.opened = "true";
    const details = make("div", { "aria-live": "polite" }, make("p", { class: "small" }, "Rebuilding the prompt …"));
    place.append(details);
    try {
      const turn = await discussions.source.turn(entry, id);
      const parts = [turnDetails(turn)];
      if (turn.editable) parts.push(editor(discussions.source, entry, conversation.byId.get(id)));
      details.replaceChildren(...parts);
    } catch (error) {
      details.replaceChildren(make("p", { class: "note" }, error.message));
    }
  }
  return { element, cards, choose };
}

function heading(entry, { previous, next }) {
  const step = (to, text) => (to ? make("a", { href: `#${link(to)}` }, text) : make("span", { class: "small" }, text));
  return make("header", null,
    make("nav", { class: "steps", "aria-label": "Neighbours" }, step(previous, "‹ previous"), " ", step(next, "next ›")),
    make("h3", { dir: "auto" }, entry.text ?? entry.question));
}

function outcome(discussions, entry, { trace }, sources) {
  const group = discussions.groups.get(entry.group);
  const facts = [];
  const add = (name, ...value) => facts.push([name, ...value]);
  const text = (value) => make("bdi", null, value);
  add("Method", group.label);
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
  if (entry.explained) add("Attribution", text(entry.explained.turn || entry.explained.cause), ` (suspects: ${entry.explained.suspects.join(", ")})`);
  if (trace.status && trace.status !== "ok") add("Status", badge("bad", trace.status));
  const cost = [[entry.tokens ?? 0, "token"], [entry.calls ?? 0, "call"], [entry.turns, "turn"], [entry.edges, "edge"]];
  // A method without a graph has no edges to count.
  add("Cost", cost.filter(([n, noun]) => n || (n === 0 && noun !== "edge")).map(([n, noun]) => count(n, noun)).join(", "));
  const tags = Object.entries(entry.tags ?? {}).map(([name, value]) => `${name}: ${value}`);
  if (tags.length) add("Kind", tags.join(", "));

  const further = [["Question", entry.question]];
  if (trace.evidence?.length) further.push(["Evidence", make("ol", { class: "sources" }, trace.evidence.map((id) => make("li", { title: id }, sources.name(id))))]);
  const unasked = (trace.lookups ?? []).filter(({ of }) => !of);
  if (unasked.length) further.push(["Searches", sources.searches(unasked)]);
  if (trace.decision?.length) further.push(["Decision read", trace.decision.join(", ")]);
  further.push(["Trace", `${group.file}, line ${entry.line}${entry.sample ? `, sample ${entry.sample}` : ""}`]);
  return [list(facts), make("details", null, make("summary", null, "Evidence, searches and trace"), list(further))];
}

function list(facts, style = "facts") {
  const items = facts.map(([name, ...value]) => make("div", null, make("dt", null, name), make("dd", null, ...value)));
  return make("dl", { class: style }, items);
}

function answered(answer) {
  return answer == null ? make("i", null, "none") : make("bdi", { class: "answer" }, answer);
}

function card(conversation, sources, base, turn) {
  const status = turn.status ?? "ok";
  const opinion = conversation.opinion(turn), former = conversation.former.get(turn.id);
  const tampered = new Set(turn.tampered);
  const attacked = conversation.attacked.has(turn.agent);
  const searches = (conversation.trace.lookups ?? []).filter(({ of }) => of === turn.id);
  const cites = sources.cites(turn.content ?? "");
  const why = conversation.explained;
  const without = why?.turns.filter(([of]) => of === turn.id || of.endsWith(` -> ${turn.id}`)) ?? [];
  const facts = [
    ...without.map(([of, answer, utility, phi]) => [
      of === turn.id ? REPLACED[why.by] : `${tampered.has(of.split(" -> ")[0]) ? "Hearing, as it was sent," : "Without hearing"} ${of.split(" -> ")[0]}`,
      ...(phi ? [`Shapley value ${phi[0].toFixed(2)}`] : [answered(answer), badge(verdict({ utility }), VERDICTS[verdict({ utility })])])]),
    cites.length ? ["Cites", cites.map((id) => `[${sources.order.indexOf(id) + 1}] ${sources.name(id)}`).join("; ")] : null,
    searches.length ? ["Searches", sources.searches(searches)] : null,
    ["Heard", voices((turn.heard ?? []).map((id) => conversation.byId.get(id) ?? id), conversation, base, tampered)],
    ["Heard by", voices(conversation.heardBy.get(turn.id), conversation, base, new Set())],
    turn.cut?.length ? ["Left out", sources.counted(turn.cut, "source")] : null,
    ["Cost", `${(turn.prompt_tokens ?? 0).toLocaleString("en")} + ${count(turn.completion_tokens ?? 0, "token")}, ${count(turn.calls ?? 0, "call")}`
      + (turn.seconds === undefined ? "" : `, ${lasted(turn.seconds)}`)],
  ];
  const fields = new Map();
  for (const [name, value] of turn.fields ?? []) fields.set(name, [...(fields.get(name) ?? []), value]);
  const content = fields.size && status === "ok"
    ? list([...fields].map(([name, values]) => [name, make("bdi", null, sources.cited(values.join("; ")))]), "facts content")
    : turn.content ? make("div", { class: "content", dir: "auto" }, sources.cited(turn.content)) : null;
  return make("section", { class: `turn ${status}${attacked ? " attacked" : ""}`, tabindex: -1, "aria-label": conversation.speaker(turn) },
    make("h5", null,
      conversation.stepwise ? `${turn.round}. ` : null,
      make("a", { href: `#${link(base, turn)}` }, turn.agent),
      attacked ? badge("bad", "⚠ attacked") : null,
      why?.turn === turn.id ? badge("bad", why.by === "counterpart" ? "decisive" : "the answer depends on it") : null,
      status === "ok" ? null : badge("bad", status),
      tampered.size ? badge("bad", `heard ${count(tampered.size, "tampered message")}`) : null,
      turn.cut?.length ? badge("warn", "evidence left out") : null,
      conversation.differs === turn.id ? badge("differs", "≠ first difference") : null),
    content,
    turn.error ? make("p", { class: "error", dir: "auto" }, turn.error) : null,
    turn.answer == null && turn.fields?.length ? null : make("p", null, "Answer: ", former ? [sign(former), "→ "] : null, opinion ? sign(opinion) : null,
      make("b", null, answered(turn.answer)),
      turn.confidence == null ? null : ` (confidence ${turn.confidence.toFixed(2)})`),
    list(facts.filter(Boolean), "facts small"));
}

/** Links to turns; a message that is not in the trace is shown by its id. */
function voices(turns, conversation, base, tampered) {
  if (!turns.length) return "no agent";
  return turns.flatMap((turn) => {
    if (typeof turn === "string") return [turn, " "];
    const opinion = conversation.opinion(turn);
    return [make("a", { href: `#${link(base, turn)}`, class: "voice" },
      opinion ? sign(opinion) : null,
      `${turn.agent} (${turn.round})`,
      tampered.has(turn.id) ? badge("bad", "tampered") : null), " "];
  });
}
