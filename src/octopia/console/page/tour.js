// Three steps for a first visitor of the demo.

import { h } from "./dom.js";
import { go, store } from "./store.js";

const STEPS = [
  { title: "Quotes flow", text: "Nine brokers in three clusters (bands) and three regions (columns). Four feeds publish quotes, nine clients subscribe with conditions on content. Thick links carry more; click a broker to see who is connected.", act: "See broker (b,2)", run: () => go("broker", "(b,2)") },
  { title: "Ask for what you want", text: "Type a condition such as symbol = 'IBM' and change > 0. It is read as you type, you see who advertises it, and matching quotes stream in.", act: "Listen to IBM", run: () => go("listen", "", { filter: "symbol in ('IBM', 'AAPL') and change > 0", on: "1" }) },
  { title: "Break something", text: "Slow the link (b,2) → (b,0) down to 20 ms per message. Its queue fills up, the link turns red, and copies for cluster 0 take another way. Then switch to static routing and watch the delay.", act: "Go and play", run: () => go("play") },
];

export function tour(force = false) {
  if (!force && (!store.overlay?.demo || localStorage.getItem("octopia-tour") === "done")) return;
  document.querySelector(".tour")?.remove();
  let at = 0;
  const box = h("aside", { class: "tour", role: "dialog", "aria-label": "Tour" });
  const end = () => {
    localStorage.setItem("octopia-tour", "done");
    box.remove();
  };
  const show = () => {
    const step = STEPS[at];
    box.replaceChildren(
      h("button", { type: "button", class: "close", "aria-label": "End the tour", onclick: end }, "×"),
      h("div", { class: "tour-count" }, STEPS.map((_, n) => h("i", { class: n === at ? "on" : "" })), `${at + 1} of ${STEPS.length}`),
      h("h3", null, step.title), h("p", null, step.text),
      h("div", { class: "row" }, h("button", { type: "button", class: "primary", onclick: () => step.run() }, step.act), h("button", { type: "button", class: "quiet", onclick: () => (at === STEPS.length - 1 ? end() : (at++, show())) }, at === STEPS.length - 1 ? "Done" : "Next")),
    );
  };
  show();
  document.body.append(box);
}
