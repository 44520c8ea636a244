"use strict";

/* A recorded turn's reply, edited: the server of `view= view.edit=true` holds the rest of the discussion again. */

function editor(source, entry, turn) {
  const answer = make("input", { value: turn.answer ?? "", size: 60 });
  const message = make("textarea", { rows: 6, cols: 80 }, turn.content ?? "");
  const status = make("p", { class: "small", role: "status" });
  const button = make("button", { type: "button" }, "Go on with this reply");
  button.addEventListener("click", async () => {
    const changes = {};
    if (answer.value !== (turn.answer ?? "")) changes.answer = answer.value;
    if (message.value !== message.defaultValue) changes.message = message.value;
    button.disabled = true;
    status.textContent = "The later turns are asked again …";
    try {
      await browsing.showEdited(entry, turn, await source.proceed(entry, turn.id, changes));
    } catch (error) {
      status.textContent = error.message;
    }
    button.disabled = false;
  });
  return folded("Edit this reply and go on", make("div", { class: "edit" },
    make("label", null, "Answer ", answer), make("label", null, "Message ", message), button, status));
}
