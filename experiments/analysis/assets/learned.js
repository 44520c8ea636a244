"use strict";

/* A graph as it is learned: a slider over the steps of its training. Senders are left, receivers right. An edge is as
   strong as it is likely; a pruned one fades. */

const ACROSS = { sender: 170, receiver: 430 }, LANE = 38, FADING = 10;

/** Draws a kind of edge of a graph. Returns the figure, and `at(i)`, which shows it as of the step with this place. */
function learnedFigure(graph, kind) {
  const { agents, steps } = graph;
  const svg = draw("svg", { viewBox: `0 0 600 ${LANE * (agents.length + 1)}`, role: "img" });
  const y = (i) => LANE * (i + 1);
  const edges = agents.flatMap((sender, from) => agents.map((receiver, to) => ({
    likely: steps.map(({ probabilities }) => probabilities[kind]?.[from][to] ?? null),
    path: draw("path", { d: `M${ACROSS.sender} ${y(from)}L${ACROSS.receiver} ${y(to)}`, class: "likely" }),
    name: `${sender} → ${receiver}`,
  }))).filter(({ likely }) => likely.some((p) => p !== null));
  svg.append(...edges.map(({ path }) => path));
  for (const [side, x] of Object.entries(ACROSS)) {
    const words = { x: x + (side === "sender" ? -12 : 12), "text-anchor": side === "sender" ? "end" : "start" };
    svg.append(draw("text", { ...words, y: 14 }, side));
    for (const [i, agent] of agents.entries()) {
      const attacked = graph.attacked.includes(agent);
      const diamond = { x: x - 6, y: y(i) - 6, width: 12, height: 12, transform: `rotate(45 ${x} ${y(i)})` };
      svg.append(
        attacked ? draw("rect", diamond) : draw("circle", { cx: x, cy: y(i), r: 6 }),
        draw("text", { ...words, y: y(i) + 4, class: attacked ? "attacked" : null }, shortened(attacked ? `⚠ ${agent}` : agent)),
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

/** Fills the section of learned graphs. */
function showLearned(graphs) {
  const section = document.getElementById("graph");
  const choose = document.getElementById("learner"), slider = document.getElementById("step"), says = document.getElementById("at");
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
  learner();
}
