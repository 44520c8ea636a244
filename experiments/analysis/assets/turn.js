"use strict";

/* One turn as its agent saw it: the prompt, the raw reply with what was read from it, sources, searches and times. The
   server of `view=` reads it from the run folder. */

/** The details of a turn, as turn.json has them. */
function turnDetails({ calls, marks, sources, searches, note, ...time }) {
  return make("div", { class: "details" },
    note ? make("p", { class: "note" }, note) : null,
    times(time),
    calls.map((call, i) => exchange(call, marks.filter((mark) => mark.call === i), i)),
    searches.length ? folded(`Searches: ${searches.length}`, make("ul", { class: "sources" }, searches.map(searched))) : null,
    sources.length ? folded(`Sources: ${sources.length}`, sources.map(sourceShown)) : null);
}

function times({ started, seconds, cached_tokens: cached, replica }) {
  if (seconds === undefined) return null;
  const parts = [`asked ${new Date(1000 * started).toLocaleString()}`, `answered after ${lasted(seconds)}`];
  if (replica) parts.push(`by replica ${replica}`);
  if (cached) parts.push(`${count(cached, "prompt token")} from its prefix cache`);
  return make("p", { class: "small" }, parts.join(", "));
}

/** A prompt and its reply. A repair repeats the first prompt, so only its request is shown. */
function exchange(call, marks, number) {
  const parts = call.correction
    ? [folded("Request to repair the reply", prompted(call.correction), true)]
    : [
      folded("Prompt: task", prompted(call.own), true),
      folded("Prompt: question and evidence", prompted(call.shared)),
      call.images.length ? folded(`Prompt: ${count(call.images.length, "picture")}`, call.images.map(sourceShown)) : null,
      folded("Prompt: system", prompted(call.system)),
    ];
  const tokens = `${call.prompt_tokens.toLocaleString("en")} + ${count(call.completion_tokens, "token")}`;
  return make("section", { "aria-label": number ? `Call ${number + 1}` : "Call" }, parts,
    folded(`Reply: ${tokens}`, marked(call.reply, marks), true));
}

function folded(title, content, open = false) {
  return make("details", { open: open ? "" : null }, make("summary", null, title), content);
}

function prompted(value) {
  return make("pre", { dir: "auto", tabindex: 0 }, value);
}

/** A reply with the places of the values that were read from it. */
function marked(reply, marks) {
  const parts = [];
  let end = 0;
  for (const mark of [...marks].sort((one, other) => one.start - other.start)) {
    if (mark.start < end) continue;
    parts.push(reply.slice(end, mark.start), make("mark", { title: `read as ${mark.field}` }, reply.slice(mark.start, mark.end)));
    end = mark.end;
  }
  return make("pre", { dir: "auto", tabindex: 0 }, parts, reply.slice(end));
}

function searched({ base, query, asked, found }) {
  const titles = [...new Set(found.map(({ id, title }) => title || id))].join("; ");
  return make("li", null, `${asked ? "asked here" : "found what is read here"}: ${base}: “`, make("bdi", null, query), `” ${titles || "found nothing"}`);
}

function sourceShown({ number, id, title, kind, text: words, src, cut }) {
  return make("figure", { class: "source", title: id },
    make("figcaption", null, number ? `[${number}] ` : null, make("bdi", null, title), badge("plain", kind), cut ? badge("warn", "left out") : null),
    src ? make("img", { src, alt: words || title, loading: "lazy" }) : null,
    words ? make("p", { dir: "auto" }, words) : null);
}
