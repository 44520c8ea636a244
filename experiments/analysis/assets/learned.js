"use strict";

/* A graph as it is learned: a slider over the steps of its training. Spatial edges are drawn between agents on a circle,
   temporal ones from the round before to the next. An edge is as strong as it is likely; a pruned one fades. */

const WIDE = 620, HIGH = 400, RING = 140, NAME = 170, FADING = 10;

/** Where an agent's node is: on a circle, or for a temporal edge in the column of its sender or its receiver. */
function seat(i, n, kind, receives) {
  if (kind.startsWith("temporal")) return { x: receives ? WIDE - NAME : NAME, y: 30 + (i * (HIGH - 60)) / Math.max(1, n - 1) };
  const turn = (2 * Math.PI * i) / n - Math.PI / 2;
  return { x: WIDE / 2 + RING * Math.cos(turn), y: HIGH / 2 + RING * Math.sin(turn) };
}

/** Draws a kind of edge of a graph. Returns the figure, and `at(i)`, which shows it as of the step with this place. */
function learnedFigure(graph, kind) {
  const { agents, steps } = graph;
  const n = agents.length, temporal = kind.startsWith("temporal");
  const svg = draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img" }, draw("defs", null, tip("-learned", 8)));
  const edges = [];
  for (let from = 0; from < n; from++) {
    for (let to = 0; to < n; to++) {
      const likely = steps.map(({ probabilities }) => probabilities[kind]?.[from][to] ?? null);
      if (likely.every((p) => p === null)) continue;
      const a = seat(from, n, kind, false), b = seat(to, n, kind, true);
      // The two directions between two agents bow to different sides.
      const middle = { x: (a.x + b.x) / 2 + (temporal ? 0 : (b.y - a.y) * 0.16), y: (a.y + b.y) / 2 - (temporal ? 0 : (b.x - a.x) * 0.16) };
      const path = draw("path", { d: `M${a.x} ${a.y}Q${middle.x} ${middle.y} ${b.x} ${b.y}`, class: "likely" });
      edges.push({ path, likely, name: `${agents[from]} → ${agents[to]}` });
      svg.append(path);
    }
  }
  const columns = temporal ? [false, true] : [false];
  for (const receives of columns) {
    for (const [i, agent] of agents.entries()) {
      const { x, y } = seat(i, n, kind, receives);
      const attacked = graph.attacked.includes(agent);
      const right = temporal ? receives : x > WIDE / 2 + 1, centred = !temporal && Math.abs(x - WIDE / 2) < 2;
      const anchor = centred ? "middle" : right ? "start" : "end";
      const at = { x: centred ? x : x + (right ? 10 : -10), y: centred ? y + (y < HIGH / 2 ? -11 : 20) : y + 4, "text-anchor": anchor };
      svg.append(
        attacked
          ? draw("rect", { class: "attacked", x: x - 6, y: y - 6, width: 12, height: 12, transform: `rotate(45 ${x} ${y})` })
          : draw("circle", { cx: x, cy: y, r: 6 }),
        draw("text", { ...at, class: attacked ? "attacked" : null }, shortened(attacked ? `⚠ ${agent}` : agent, 25)),
      );
    }
  }
  const caption = make("figcaption");
  function at(step) {
    let left = 0, gone = 0;
    for (const { path, likely } of edges) {
      const p = likely[step];
      let last = step;
      while (last >= 0 && likely[last] === null) last -= 1;
      const fading = p === null && last >= 0;
      left += Number(p !== null);
      gone += Number(fading);
      path.classList.toggle("pruned", fading);
      path.style.opacity = p !== null ? 0.08 + (0.92 * p) / 100 : fading ? Math.max(0.2, 1 - (step - last) / FADING) : 0;
      path.style.strokeWidth = p !== null ? 0.5 + (2.5 * p) / 100 : 1;
    }
    const sure = edges.filter(({ likely }) => likely[step] !== null).sort((a, b) => b.likely[step] - a.likely[step]).slice(0, 3);
    caption.textContent = `${kind}: ${count(left, "edge")} left, ${gone.toLocaleString("en")} pruned`
      + (sure.length ? `; likeliest: ${sure.map(({ name, likely }) => `${name} ${likely[step]}%`).join(", ")}` : "");
    svg.setAttribute("aria-label", caption.textContent);
  }
  return { figure: make("figure", null, svg, caption), at };
}

/** Fills the section of learned graphs, and fills it again while a run learns: a slider that was moved back stays there. */
function showLearned(graphs) {
  const section = document.getElementById("graph");
  const choose = document.getElementById("learner"), slider = document.getElementById("step"), says = document.getElementById("at");
  const chosen = choose.value, kept = section.childElementCount && slider.value !== slider.max ? slider.value : null;
  choose.replaceChildren(...graphs.map(({ name }, i) => make("option", { value: i }, name)));
  let shown = [];
  function step() {
    const { steps } = graphs[choose.value];
    const { stage, step, edges } = steps[slider.value];
    const [first, last] = [steps[0], steps.at(-1)];
    says.textContent = `stage ${stage}, step ${step}: ${count(edges, "edge")} left (${first.edges} at first, ${last.edges} at last)`;
    slider.setAttribute("aria-valuetext", says.textContent);
    for (const { at } of shown) at(Number(slider.value));
  }
  function learner() {
    const graph = graphs[choose.value];
    const kinds = [...new Set(graph.steps.flatMap(({ probabilities }) => Object.keys(probabilities)))];
    shown = kinds.map((kind) => learnedFigure(graph, kind));
    section.replaceChildren(...shown.map(({ figure }) => figure));
    slider.max = graph.steps.length - 1;
    slider.value = slider.max;
    step();
  }
  choose.onchange = learner;
  slider.oninput = step;
  if (graphs[chosen]) choose.value = chosen;
  learner();
  if (kept !== null) {
    slider.value = kept;
    step();
  }
}
