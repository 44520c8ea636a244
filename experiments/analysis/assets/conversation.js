"use strict";

/* What a trace says about its turns: who heard whom, the answers as opinions with a letter and a colour, and changes. */

/** The turns of a trace with their senders and receivers. `opinions` are the distinct answers, the final one first, or
    after those of another discussion, whose letters they share. */
class Conversation {
  constructor(trace, opinions = []) {
    this.trace = trace;
    this.turns = trace.turns;
    this.byId = new Map(this.turns.map((turn) => [turn.id, turn]));
    this.heardBy = new Map(this.turns.map((turn) => [turn.id, []]));
    for (const turn of this.turns) {
      for (const id of turn.heard ?? []) this.heardBy.get(id)?.push(turn);
    }
    this.attacked = new Set(trace.attacked ?? []);
    this.rounds = [...new Set(this.turns.map((turn) => turn.round))].sort((a, b) => a - b);
    this.wired = Boolean(trace.spatial?.length || trace.temporal?.length);
    // Systems number their turns one by one, whoever speaks.
    this.stepwise = !this.wired && this.turns.length > 2 && this.rounds.length === this.turns.length;
    this.opinions = new Map(opinions);
    if (trace.answer != null) this.opinions.set(same(trace.answer), { text: trace.answer });
    this.former = new Map(); // the opinion that a turn's agent held before, where the turn changed it
    const held = new Map();
    for (const turn of this.turns) {
      if (turn.answer == null) continue;
      if (!this.opinions.has(same(turn.answer))) this.opinions.set(same(turn.answer), { text: turn.answer });
      const now = this.opinion(turn), before = held.get(turn.agent);
      if (before && before !== now) this.former.set(turn.id, before);
      held.set(turn.agent, now);
    }
    for (const [i, opinion] of [...this.opinions.values()].entries()) {
      opinion.sign = i < 26 ? String.fromCharCode(65 + i) : String(i + 1);
      opinion.style = i < 6 ? `opinion-${i}` : "opinion-other";
    }
  }

  opinion(turn) {
    return turn.answer == null ? null : this.opinions.get(same(turn.answer));
  }

  /** "round 2", or "step 7" in a system that goes step by step. */
  when(turn) {
    return `${this.stepwise ? "step" : "round"} ${turn.round}`;
  }

  /** The heading of a round: an agent outside the team that has it alone, as the decision agent, names it. */
  heading(round) {
    const apart = this.apart(round);
    return apart ? apart.agent : this.when({ round });
  }

  /** The only turn of a round, where its agent is none of the team; else undefined. */
  apart(round) {
    const [turn, ...others] = this.turns.filter((turn) => turn.round === round);
    return turn && !others.length && !this.trace.agents.includes(turn.agent) ? turn : undefined;
  }

  speaker(turn) {
    return `${turn.agent}, ${this.when(turn)}`;
  }
}

/** Answers that differ in capitals and blanks alone are one opinion. */
function same(answer) {
  return answer.trim().replace(/\s+/g, " ").toLowerCase();
}

/** Names of the fields of a task's reply, each once: what a step of a system does. */
function does(turn) {
  return [...new Set((turn.fields ?? []).map(([name]) => name))].join(", ");
}

function lasted(seconds) {
  return seconds < 1 ? `${Math.round(1000 * seconds)} ms` : seconds < 100 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds / 60)} min`;
}

/** Tokens of a turn, and how long it took where that was recorded. */
function cost(turn) {
  const tokens = (turn.prompt_tokens ?? 0) + (turn.completion_tokens ?? 0);
  const short = tokens < 1000 ? String(tokens) : `${(tokens / 1000).toFixed(tokens < 10000 ? 1 : 0)}k`;
  return [short, ...(turn.seconds === undefined ? [] : [lasted(turn.seconds)])].join(" · ");
}

function sign(opinion) {
  return make("span", { class: `sign ${opinion.style}` }, opinion.sign);
}

/** The distinct answers, with their letters in the wiring: how many turns gave each in each round. */
function answersByRound(conversation, entry) {
  const { turns, trace, former } = conversation;
  const gold = new Set((entry.gold ?? []).map(same));
  const target = trace.target == null ? null : same(trace.target);
  const rounds = conversation.stepwise ? [] : conversation.rounds;
  const counted = (list) => [...rounds.map((round) => list.filter((turn) => turn.round === round)), list]
    .map(({ length }) => make("td", null, length ? String(length) : ""));
  const of = (opinion) => turns.filter((turn) => conversation.opinion(turn) === opinion);
  const rows = [...conversation.opinions].filter(([, opinion]) => of(opinion).length).map(([key, opinion]) => make("tr", null,
    make("th", { scope: "row" }, sign(opinion), make("bdi", null, opinion.text),
      gold.has(key) ? badge("right", "✓ expected") : null,
      key === target ? badge("bad", "attack's target") : null),
    counted(of(opinion))));
  const silent = turns.filter((turn) => turn.answer == null);
  const further = [["no answer", conversation.stepwise ? [] : silent], ["answer changed", turns.filter((turn) => former.has(turn.id))]]
    .filter(([, list]) => list.length)
    .map(([name, list]) => make("tr", null, make("th", { scope: "row" }, make("i", null, name)), counted(list)));
  const heads = [rounds.length ? "Answers by round" : "Answers", ...rounds.map((round) => conversation.heading(round)), "turns"];
  return framed(heads[0], make("table", { class: "answers" },
    make("thead", null, make("tr", null, heads.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", null, rows, further)));
}
