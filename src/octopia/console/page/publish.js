// Publish and probe: a notification as JSON or as a form, and the way it takes, hop by hop.

import { h, put, ask, debounced, duration } from "./dom.js";
import { store, remember, address } from "./store.js";
import { OverlayMap } from "./map.js";
import { connect } from "./octopia.js";
import { identity, identityForm, problem, socketUrl } from "./listen.js";

const EXAMPLE = '{"symbol": "AAPL", "price": 120}';
const DEMO = '{"symbol": "IBM", "price": 140.5, "change": 1.9, "volume": 60000, "exchange": "NYSE"}';

// Reads a notification as the product does; JSON, PADRES text or the form become the same object.
export function notificationInput(text, { onChange = () => {}, id = "notification" } = {}) {
  const area = h("textarea", { class: "code", rows: 4, spellcheck: "false", autocomplete: "off", "aria-label": "Notification", id, value: text });
  const said = h("div", { class: "said", role: "status", "aria-live": "polite" }), form = h("div", { class: "form-rows" });
  let asForm = false, value = null, asked = 0;
  const look = async () => {
    const mine = ++asked, written = area.value.trim();
    let answer;
    if (!written) answer = { ok: false, message: "the notification is empty" };
    else {
      try {
        answer = await ask("/api/parse", { notification: written.startsWith("{") ? JSON.parse(written) : written });
      } catch (error) {
        answer = { ok: false, message: error instanceof SyntaxError ? `this is not JSON: ${error.message}` : error.message };
      }
    }
    if (mine !== asked) return;
    value = answer.ok ? answer.notification : null;
    area.classList.toggle("wrong", !answer.ok);
    put(said, answer.ok ? [] : problem(answer));
    onChange(value, area.value);
  };
  const rows = () => {
    put(form, Object.entries(value ?? {}).map(([name, each]) => field(name, each)), h("button", { type: "button", onclick: () => form.insertBefore(field("", ""), form.lastChild) }, "+ attribute"));
  };
  const field = (name, each) => {
    const key = h("input", { type: "text", value: name, "aria-label": "Attribute", oninput: () => gather() });
    const kind = h("select", { "aria-label": "Type", onchange: () => gather() }, ["text", "number", "true/false"].map((each) => h("option", null, each)));
    kind.value = typeof each === "number" ? "number" : typeof each === "boolean" ? "true/false" : "text";
    const field = h("input", { type: "text", value: String(each), "aria-label": "Value", oninput: () => gather() });
    const row = h("div", { class: "form-row" }, key, kind, field, h("button", { type: "button", "aria-label": "Remove", onclick: () => (row.remove(), gather()) }, "×"));
    row.read = () => [key.value, kind.value === "number" ? Number(field.value) : kind.value === "true/false" ? field.value === "true" : field.value];
    return row;
  };
  const gather = debounced(() => {
    area.value = JSON.stringify(Object.fromEntries([...form.querySelectorAll(".form-row")].map((row) => row.read()).filter(([name]) => name)), null, 1).replace(/\n */g, " ");
    look();
  }, 150);
  const swap = h("button", { type: "button", class: "quiet", onclick: () => {
    asForm = !asForm;
    if (asForm) rows();
    area.hidden = asForm;
    form.hidden = !asForm;
    swap.textContent = asForm ? "as JSON" : "as a form";
  } }, "as a form");
  form.hidden = true;
  area.addEventListener("input", debounced(look, 180));
  // Not before the caller has what is returned here.
  const ready = Promise.resolve().then(look);
  return { element: h("div", { class: "filter-input" }, swap, area, form, said), get value() { return value; }, get text() { return area.value; }, input: area, ready };
}

export function pathOf(path) {
  return (path?.hops ?? []).map((hop) => ({ ...hop, time: hop.arrived ? duration(hop.at_s) : "stuck" }));
}

export function pathList(path) {
  if (!path) return [];
  const steps = path.brokers ?? [];
  return h("ol", { class: "steps" }, steps.map((step) => h("li", null, h("span", { class: "at" }, duration(step.at_s)), h("a", { href: address("broker", step.broker) }, step.broker), h("span", { class: "faint" }, step.came_from ? ` from ${step.came_from}` : " accepts it"), step.sent.map((each) => h("div", { class: "sent" }, "→ ", each.to, each.label && h("code", null, each.label), each.stuck && h("span", { class: "bad" }, " did not arrive"))), step.delivered.map((client) => h("div", { class: "sent got" }, "● ", h("a", { href: address("why", "", { client }) }, client))))));
}

export function publishView(root, given) {
  const silent = h("input", { type: "checkbox", id: "silent", checked: given.deliver !== "1" });
  const publisher = h("input", { type: "text", value: given.publisher ?? "", placeholder: "as the console", "aria-label": "As publisher", list: "clients", oninput: () => remember({ publisher: publisher.value }) });
  const send = h("button", { type: "button", class: "primary" }, "Probe");
  const result = h("div", { class: "result", "aria-live": "polite" }), map = new OverlayMap({ compact: false });
  const note = notificationInput(given.n ?? (store.overlay?.demo ? DEMO : EXAMPLE), { onChange: (value, text) => { send.disabled = value === null; remember({ n: text }); } });
  const label = () => {
    send.textContent = silent.checked ? "Probe" : "Publish";
    send.classList.toggle("danger", !silent.checked);
    remember({ deliver: silent.checked ? "" : "1" });
  };
  silent.addEventListener("change", label);
  send.addEventListener("click", async () => {
    send.disabled = true;
    put(result, h("p", { class: "faint" }, silent.checked ? "Probing…" : "Publishing…"));
    map.showPath([]);
    try {
      if (silent.checked) showProbe(await ask("/api/probe", { notification: note.value, publisher: publisher.value }));
      else await publish(note.value);
    } catch (error) {
      put(result, problem(error));
    }
    send.disabled = false;
  });
  const showProbe = (path) => {
    if (path.refused) return put(result, h("div", { class: "verdict no" }, "It would be refused: ", path.refused));
    const got = path.would_deliver ?? [];
    put(result, h("div", { class: "verdict yes" }, got.length ? `${got.length} client${got.length === 1 ? "" : "s"} would get it` : "Nobody would get it", ` after ${path.hops.length} hop${path.hops.length === 1 ? "" : "s"}. Nothing was delivered.`), pathList(path));
    map.showPath(pathOf(path));
  };
  const publish = async (notification) => {
    const client = await connect(socketUrl(), identity);
    try {
      await client.advertise(Object.keys(notification).map((name) => `"${name.replaceAll('"', '""')}" is not null`).join(" and "));
      const number = await client.publish(notification);
      await client.flush();
      put(result, h("div", { class: "verdict yes" }, `Published as number ${number} of ${client.name} at ${client.broker}, and routed.`));
    } finally {
      client.close();
    }
  };
  const readOnly = store.overlay && !store.overlay.may_publish;
  put(root, h("section", { class: "panel split" },
    h("div", { class: "side" },
      h("header", { class: "panel-head" }, h("h2", null, "Publish and probe")),
      h("p", { class: "lead" }, "A probe takes the way a notification would take, through the same tables and queues, and reaches no subscriber."),
      note.element,
      h("label", { class: "check" }, silent, " Do not deliver: probe only"),
      readOnly && h("p", { class: "faint" }, "This console is read-only; --allow-publish lets it publish."),
      h("label", { class: "field" }, "As publisher", publisher),
      h("div", { class: "row" }, send),
      identityForm(), result),
    h("div", { class: "main" }, map.element)));
  if (readOnly) silent.disabled = true;
  label();
  return { close: () => map.close() };
}
