// Play: do something to the demo overlay and watch what happens to delay and queues.

import { h, put, ask, count } from "./dom.js";
import { store, on, remember } from "./store.js";
import { OverlayMap } from "./map.js";
import { overlayCharts } from "./charts.js";
import { problem } from "./listen.js";

const ROUTINGS = { snr: "static (SNR)", idr: "dynamic (IDR)", fdr: "full dynamic (FDR)" };

export function playView(root, given) {
  if (store.overlay && !store.overlay.demo) {
    put(root, h("section", { class: "panel" }, h("h2", null, "Play"), h("p", null, "This is a real overlay, and nothing here changes it. Start octopia console --demo to play.")));
    return {};
  }
  const said = h("div", { class: "problem", role: "alert", hidden: true }), done = h("ul", { class: "doings" }), picked = h("div", { class: "picked" });
  const charts = overlayCharts(300);
  let chosen = null;
  const order = async (what) => {
    said.hidden = true;
    root.classList.add("busy");
    try {
      await ask("/api/play", what);
    } catch (error) {
      said.hidden = false;
      put(said, problem(error));
    }
    root.classList.remove("busy");
  };
  const map = new OverlayMap({ onLink: (one, other) => pick({ link: [one, other] }), onBroker: (id) => pick({ broker: id }) });
  const pick = (what) => {
    chosen = what;
    map.choose(what?.broker);
    show();
  };
  const act = (label, what, kind = "") => h("button", { type: "button", class: kind, onclick: () => order(what) }, label);
  const show = () => {
    const state = store.play ?? {};
    if (!chosen) put(picked, h("p", { class: "faint" }, "Click a link or a broker of the map."));
    else if (chosen.broker) {
      const dead = (state.dead ?? []).includes(chosen.broker);
      put(picked, h("h3", null, `Broker ${chosen.broker}`), h("div", { class: "row" }, dead ? act("Restart it", { do: "restart", broker: chosen.broker }, "primary") : act("Kill it", { do: "kill", broker: chosen.broker }, "danger"), !dead && act("Restart it", { do: "restart", broker: chosen.broker })));
    } else {
      const [one, other] = chosen.link, slow = h("input", { type: "range", min: 0, max: 60, step: 5, value: 20, "aria-label": "Milliseconds per message" }), ms = h("output", null, "20 ms");
      slow.addEventListener("input", () => (ms.textContent = `${slow.value} ms`));
      put(picked, h("h3", null, `${one} → ${other}`), h("label", { class: "field" }, "Each message takes", slow, ms), h("div", { class: "row" }, h("button", { type: "button", class: "primary", onclick: () => order({ do: "slow", link: [one, other], ms: Number(slow.value) }) }, "Slow it down"), act("Cut it", { do: "cut", link: [one, other] }, "danger"), act("Mend it", { do: "mend", link: [one, other] })));
    }
    const list = [...(state.slow ?? []).map((each) => [`${each.link[0]} → ${each.link[1]} takes ${each.ms} ms per message`, { do: "mend", link: each.link }]), ...(state.cut ?? []).filter(([one, other]) => one < other).map((each) => [`${each[0]} – ${each[1]} is cut`, { do: "mend", link: each }]), ...(state.dead ?? []).map((each) => [`${each} is dead`, { do: "restart", broker: each }])];
    put(done, list.map(([text, undo]) => h("li", null, text, h("button", { type: "button", class: "quiet", onclick: () => order(undo) }, "undo"))));
    if (state.routing) routing.value = state.routing;
    if (state.rate_per_s !== undefined && document.activeElement !== load) {
      load.value = state.rate_per_s;
      perS.textContent = `${count(state.rate_per_s)} quotes/s`;
    }
  };
  const routing = h("select", { "aria-label": "Routing", onchange: () => order({ do: "routing", name: routing.value }) }, Object.entries(ROUTINGS).map(([name, text]) => h("option", { value: name }, text)));
  const load = h("input", { type: "range", min: 0, max: 1500, step: 50, value: 300, "aria-label": "Quotes per second" }), perS = h("output", null, "");
  load.addEventListener("input", () => (perS.textContent = `${count(Number(load.value))} quotes/s`));
  load.addEventListener("change", () => order({ do: "rate", per_s: Number(load.value) }));
  put(root, h("section", { class: "panel split play" },
    h("div", { class: "side" },
      h("header", { class: "panel-head" }, h("h2", null, "Play")),
      h("p", { class: "lead" }, "Slow a link down and its queue fills up; dynamic routing then goes around it, static routing waits."),
      h("label", { class: "field" }, "Routing", routing), h("label", { class: "field" }, "Load", load, perS),
      picked, said, done, h("div", { class: "row" }, act("Mend everything", { do: "mend_all" }))),
    h("div", { class: "main" }, map.element, h("div", { class: "charts three" }, charts.map((chart) => chart.element)))));
  show();
  const off = on("play", show);
  return { close: () => { off(); map.close(); charts.forEach((chart) => chart.close()); } };
}
