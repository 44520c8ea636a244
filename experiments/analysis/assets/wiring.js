"use strict";

/* A discussion's wiring: a column per round, a row per agent, the decision at the end. Curves inside a column are spatial
   edges, lines between columns temporal ones; a dashed edge carried no message. A turn shows its answer's letter, the
   letter of its agent's former answer where it differs, and its cost. */

const ROW = 46, COLUMN = 170, STEP = 96, RADIUS = 12, MARGIN = 44, HEAD = 30;

/** Draws the wiring. `open(turn)` is called for a chosen turn. Returns the figure, and `mark(turn)`, which highlights the
    turn's senders and receivers (none if null). */
function wiring(conversation, open) {
  const { nodes, rows, rounds } = placed(conversation);
  const width = rounds.length ? rounds.at(-1).x + MARGIN + 40 : 0;
  const height = HEAD + ROW * Math.max(rows.length, 1) + 10;
  const edges = connected(conversation, nodes);
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  const svg = draw("svg", { ...size, role: "group", "aria-label": "Senders and receivers of messages" });
  svg.append(draw("defs", null, ...["", "-in", "-out", "-tampered"].map(tip)));
  for (const round of rounds) {
    svg.append(draw("text", { x: round.x, y: 16, class: "round" }, round.label));
  }
  for (const [i, name] of rows.entries()) {
    const attacked = conversation.attacked.has(name);
    const at = { x: labelWidth(rows), y: rowY(i) + 4, class: attacked ? "agent attacked" : "agent" };
    svg.append(draw("text", at, shortened(attacked ? `⚠ ${name}` : name)));
  }
  for (const edge of edges) svg.append(edge.path);
  for (const node of nodes.values()) svg.append(node.shape);

  const status = make("p", { class: "small neighbours", role: "status" });
  function mark(turn) {
    svg.classList.toggle("marking", Boolean(turn));
    for (const edge of edges) {
      edge.path.classList.toggle("in", turn != null && edge.carried && edge.to.turn === turn);
      edge.path.classList.toggle("out", turn != null && edge.carried && edge.from.turn === turn);
    }
    for (const node of nodes.values()) node.shape.classList.toggle("marked", turn != null && node.turn === turn);
    status.textContent = turn ? summary(conversation, turn) : "Point at a turn, or move to it with the keyboard, to see whom it heard.";
  }
  live(svg, nodes, mark, open);
  mark(null);
  const legend = make("p", { class: "small" }, `${drawn(conversation, edges).join("; ")}.`);
  return { figure: make("figure", { class: "wiring" }, make("div", { class: "frame" }, svg), legend, status), mark };
}

/** What the signs of this drawing mean. */
function drawn(conversation, edges) {
  const has = (style) => edges.some(({ path }) => path.classList.contains(style));
  return [
    [conversation.opinions.size > 0, "letters: answers, listed below"],
    [conversation.former.size > 0, "a small letter: the agent's answer before"],
    [true, conversation.stepwise ? "below: what the step wrote" : "below: tokens, and time where it is known"],
    [has("spatial"), "curves: heard in the same round"],
    [has("temporal"), `lines: heard in a later ${conversation.stepwise ? "step" : "round"}`],
    [has("unheard"), "dashed: an edge that carried nothing"],
    [has("tampered"), "thick: a tampered message"],
    [conversation.attacked.size > 0, "diamonds: attacked agents"],
  ].filter(([is]) => is).map(([, text]) => text);
}

function summary(conversation, turn) {
  const heard = (turn.heard ?? []).map((id) => conversation.byId.get(id)).filter(Boolean);
  const names = (list) => (list.length ? list.map((other) => conversation.speaker(other)).join("; ") : "no agent");
  return `${conversation.speaker(turn)} heard ${names(heard)}. It was heard by ${names(conversation.heardBy.get(turn.id))}.`;
}

/** A node per turn, and per turn that was wired but skipped, by "round|agent". */
function placed(conversation) {
  const { trace, turns } = conversation;
  const wired = [...(trace.spatial ?? []), ...(trace.temporal ?? [])].map(([round]) => round);
  const numbers = [...new Set([...conversation.rounds, ...wired])].sort((a, b) => a - b);
  // An agent outside the team gets a row; one that has a round alone, as the decision agent, is in the middle.
  const rows = [...new Set([...trace.agents, ...turns.filter((turn) => !conversation.apart(turn.round)).map(({ agent }) => agent)])];
  const left = labelWidth(rows) + MARGIN;
  const apartBy = conversation.stepwise ? STEP : COLUMN;
  const rounds = numbers.map((number, i) => ({ x: left + apartBy * i, label: shortened(conversation.heading(number)) }));
  const nodes = new Map();
  for (const [i, number] of numbers.entries()) {
    const { x } = rounds[i], apart = conversation.apart(number);
    if (apart) nodes.set(cell(number, apart.agent), { turn: apart, x, y: rowY((Math.max(rows.length, 1) - 1) / 2), row: -1 });
    for (const [row, agent] of apart ? [] : rows.entries()) {
      const turn = turns.find((turn) => turn.round === number && turn.agent === agent) ?? null;
      if (turn || (trace.agents.includes(agent) && !conversation.stepwise)) nodes.set(cell(number, agent), { turn, x, y: rowY(row), row });
    }
  }
  for (const node of nodes.values()) node.shape = shape(conversation, node);
  return { nodes, rows, rounds };
}

function cell(round, agent) {
  return `${round}|${agent}`;
}

function rowY(row) {
  return HEAD + ROW * (row + 0.5);
}

function labelWidth(rows) {
  return 12 + 7.2 * Math.max(0, ...rows.map((name) => shortened(name).length + 2));
}

function shortened(name, most = 26) {
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

function shape(conversation, { turn, x, y }) {
  const at = { transform: `translate(${x} ${y})` };
  if (!turn) {
    const why = draw("title", null, "skipped: no agent needed it");
    return draw("g", { ...at, class: "node absent" }, draw("circle", { r: 3 }), why);
  }
  const attacked = conversation.attacked.has(turn.agent);
  const status = turn.status ?? "ok";
  const opinion = conversation.opinion(turn), former = conversation.former.get(turn.id);
  const letter = status === "failed" ? "!" : status === "unparsed" ? "?" : opinion ? opinion.sign : "–";
  const stated = status !== "ok" ? status : turn.answer ?? (does(turn) || "no answer");
  const before = former ? ` (before: ${former.text})` : "";
  const label = `${conversation.speaker(turn)}${attacked ? ", attacked" : ""}: ${stated}${before}`;
  const outline = attacked
    ? draw("rect", { x: -RADIUS, y: -RADIUS, width: 2 * RADIUS, height: 2 * RADIUS, transform: "rotate(45)" })
    : draw("circle", { r: RADIUS });
  const style = status === "ok" ? opinion?.style ?? "" : status;
  const named = { class: `node ${style}${attacked ? " attacked" : ""}${conversation.differs === turn.id ? " differs" : ""}`, role: "link", tabindex: -1, "aria-label": label };
  const below = conversation.stepwise && does(turn) ? shortened(does(turn), 14) : cost(turn);
  return draw("g", { ...at, ...named }, draw("title", null, `${label}. Tokens: ${cost(turn)}`), outline,
    draw("text", { y: 4 }, letter),
    former ? draw("g", { class: `former ${former.style}`, transform: `translate(${-RADIUS} ${-RADIUS})` },
      draw("circle", { r: 7 }), draw("text", { y: 3 }, former.sign)) : null,
    draw("text", { class: "cost", y: RADIUS + 13 }, below));
}

/** Edges that carried a message, and those that were wired and carried none. */
function connected(conversation, nodes) {
  const { trace, turns, byId } = conversation;
  const edges = new Map();
  const add = (from, to, styles) => {
    if (from && to && from !== to && !edges.has(`${from.x} ${from.y} ${to.x} ${to.y}`)) {
      const kind = from.x === to.x ? "spatial" : "temporal";
      const path = draw("path", { d: curve(from, to), class: `edge ${kind} ${styles}` });
      edges.set(`${from.x} ${from.y} ${to.x} ${to.y}`, { from, to, path, carried: styles !== "unheard" });
    }
  };
  for (const turn of turns) {
    const tampered = new Set(turn.tampered);
    for (const id of turn.heard ?? []) {
      const sender = byId.get(id);
      if (!sender) continue;
      const from = nodes.get(cell(sender.round, sender.agent)), to = nodes.get(cell(turn.round, turn.agent));
      add(from, to, tampered.has(id) ? "tampered" : "");
    }
  }
  for (const [list, delay] of [[trace.spatial, 0], [trace.temporal, 1]]) {
    for (const [round, sender, receiver] of list ?? []) {
      add(nodes.get(cell(round - delay, trace.agents[sender])), nodes.get(cell(round, trace.agents[receiver])), "unheard");
    }
  }
  const last = turns.at(-1);
  if (last && !trace.agents.includes(last.agent)) {
    const round = Math.max(...turns.filter((turn) => trace.agents.includes(turn.agent)).map((turn) => turn.round));
    for (const agent of trace.decision ?? []) add(nodes.get(cell(round, agent)), nodes.get(cell(last.round, last.agent)), "unheard");
  }
  return [...edges.values()];
}

function curve(from, to) {
  // A straight line to a later step of one agent would run through those between.
  const over = from.y === to.y && to.x - from.x > COLUMN ? 22 : 0;
  if (from.x !== to.x) return `M${from.x} ${from.y}Q${(from.x + to.x) / 2} ${(from.y + to.y) / 2 - 2 * over} ${to.x} ${to.y}`;
  const bow = Math.min(COLUMN * 0.55, 40 + 8 * Math.abs(to.row - from.row)) * (to.y > from.y ? 1 : -1);
  return `M${from.x} ${from.y}Q${from.x + bow} ${(from.y + to.y) / 2} ${to.x} ${to.y}`;
}

function tip(kind) {
  const shape = draw("path", { d: "M0 0L7 3.5L0 7z" });
  const size = { markerUnits: "userSpaceOnUse", markerWidth: 7, markerHeight: 7, refX: 7 + RADIUS, refY: 3.5 };
  return draw("marker", { id: `tip${kind}`, class: `tip${kind}`, orient: "auto", ...size }, shape);
}

/** Pointing, choosing, and moving with the arrow keys; the drawing is one stop of the Tab key. */
function live(svg, nodes, mark, open) {
  const taken = [...nodes.values()].filter((node) => node.turn);
  if (taken.length) taken[0].shape.setAttribute("tabindex", 0);
  for (const node of taken) {
    node.shape.addEventListener("pointerenter", () => mark(node.turn));
    node.shape.addEventListener("pointerleave", () => mark(null));
    node.shape.addEventListener("focus", () => mark(node.turn));
    node.shape.addEventListener("blur", () => mark(null));
    node.shape.addEventListener("click", () => open(node.turn));
    node.shape.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        open(node.turn);
        return;
      }
      const [dx, dy] = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key] ?? [0, 0];
      const ahead = (other) => (other.x - node.x) * dx + (other.y - node.y) * dy > 0 && (dx || other.x === node.x);
      const next = nearest(node, taken.filter(ahead));
      if (!next) return;
      event.preventDefault();
      for (const other of taken) other.shape.setAttribute("tabindex", other === next ? 0 : -1);
      next.shape.focus();
    });
  }
}

function nearest(node, others) {
  const distance = (other) => 10 * Math.abs(other.x - node.x) + Math.abs(other.y - node.y);
  return others.sort((a, b) => distance(a) - distance(b))[0];
}
