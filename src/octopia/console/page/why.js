// Why? A client and a notification: delivered, by which way, or the first thing that stopped it.

import { h, put, ask, debounced } from "./dom.js";
import { store, remember, address } from "./store.js";
import { OverlayMap } from "./map.js";
import { notificationInput, pathList, pathOf } from "./publish.js";
import { problem } from "./listen.js";

const KINDS = {
  delivered: "Delivered",
  predicate: "Stopped by a predicate",
  right: "Stopped by a right",
  advertisement: "Not advertised",
  subscription: "No subscription",
  link: "Stopped by a dead link",
  drop: "Dropped from a full queue",
  deadline: "Too old for its deadline",
  client: "No such client",
  unknown: "Not known",
};

export function clientInput(value, label, onChange) {
  const options = h("datalist", { id: `clients-${label}` });
  const input = h("input", { type: "text", value, list: `clients-${label}`, "aria-label": label, autocomplete: "off", placeholder: "type a name" });
  const look = debounced(async () => {
    try {
      const page = await ask(`/api/tables?table=clients&limit=20&q=${encodeURIComponent(input.value)}`);
      put(options, page.rows.map((row) => h("option", { value: row.client }, row.broker)));
    } catch {
      // A name can be typed without help.
    }
  }, 150);
  input.addEventListener("input", () => (look(), onChange(input.value)));
  input.addEventListener("focus", look);
  return { element: h("span", null, input, options), input };
}

export function whyView(root, given) {
  const result = h("div", { class: "result", "aria-live": "polite" }), map = new OverlayMap();
  const client = clientInput(given.client ?? "", "Client", (value) => remember({ client: value }));
  const publisher = clientInput(given.publisher ?? "", "Publisher", (value) => remember({ publisher: value }));
  const note = notificationInput(given.n ?? (store.overlay?.demo ? '{"symbol": "IBM", "price": 140.5, "change": 1.9, "volume": 60000, "exchange": "NYSE"}' : '{"symbol": "AAPL", "price": 120}'), { onChange: (value, text) => { button.disabled = value === null; remember({ n: text }); } });
  const button = h("button", { type: "button", class: "primary", onclick: () => look() }, "Why?");
  const look = async () => {
    button.disabled = true;
    put(result, h("p", { class: "faint" }, "Asking the brokers…"));
    map.showPath([]);
    try {
      const answer = await ask("/api/why", { client: client.input.value.trim(), notification: note.value, publisher: publisher.input.value.trim() });
      const [first, ...rest] = answer.reasons;
      put(result, h("div", { class: `verdict ${answer.delivered ? "yes" : "no"}`, "data-cause": answer.cause }, h("b", null, KINDS[answer.cause] ?? answer.cause), h("div", null, first)), rest.length > 0 && h("ul", { class: "reasons" }, rest.map((line) => h("li", null, line))), answer.path && pathList(answer.path));
      map.showPath(pathOf(answer.path));
    } catch (error) {
      put(result, problem(error));
    }
    button.disabled = note.value === null;
  };
  put(root, h("section", { class: "panel split" },
    h("div", { class: "side" },
      h("header", { class: "panel-head" }, h("h2", null, "Why?")),
      h("p", { class: "lead" }, "Pick a client and a notification: did it get it, by which way, or what stopped it?"),
      h("label", { class: "field" }, "Client", client.element), note.element,
      h("label", { class: "field" }, "Publisher (optional)", publisher.element),
      h("div", { class: "row" }, button), result),
    h("div", { class: "main" }, map.element)));
  client.input.addEventListener("keydown", (event) => event.key === "Enter" && look());
  if (given.client && given.n) note.ready.then(look);
  return { close: () => map.close() };
}
