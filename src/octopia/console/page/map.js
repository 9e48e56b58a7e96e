// The map: clusters as bands, regions as columns. Width is rate, colour is Q_l against τ, and what is wrong has a shape
// of its own: an overloaded link a badge and stripes, one that is avoided a bypass sign, one that is down a cross.

import { h, s, set, put, count, rate, reducedMotion, debounced } from "./dom.js";
import { store, on, go, place, remember, BROKER, LINK, UP, CONNECTED, OVERLOADED, AVOIDED, STATUS } from "./store.js";

const CALM = [86, 128, 168], WARM = [224, 152, 20], HOT = [200, 68, 10];
const FLOWS_MAX = 160; // links with moving dashes; more would keep a laptop busy
const BOTH_WAYS_MAX = 1200; // more links are drawn once, on a canvas, with the worse of their two directions

const mix = (from, to, share) => `rgb(${from.map((part, at) => Math.round(part + (to[at] - part) * share)).join(" ")})`;

export function loadColour(load) {
  // Some messages always wait; a colour is for when they become many.
  load = Math.max(0, (load - 0.1) / 0.9);
  if (load >= 1) return `rgb(${HOT.join(" ")})`;
  return load < 0.5 ? mix(CALM, WARM, load * 2) : mix(WARM, HOT, (load - 0.5) * 2);
}

export function linkState(row) {
  if (!row || !(row[LINK.flags] & UP)) return "down";
  if (row[LINK.flags] & OVERLOADED) return row[LINK.flags] & AVOIDED ? "avoided" : "overloaded";
  return row[LINK.flags] & CONNECTED ? "up" : "down";
}

const width_ = (value) => (value > 0 ? 1.4 + 1.5 * Math.log10(1 + value) : 1);

export class OverlayMap {
  constructor({ compact = false, onLink = null, onBroker = null } = {}) {
    this._compact = compact;
    this._onLink = onLink;
    this._onBroker = onBroker ?? ((id) => go("broker", id));
    this._view = { x: 0, y: 0, scale: 1 };
    this._filter = "";
    this._scene = s("g", { class: "scene" });
    this._canvas = h("canvas", { class: "map-links", "aria-hidden": "true" });
    this._svg = s("svg", { class: "map", role: "img", "aria-label": "Map of the overlay: clusters as bands, regions as columns", tabindex: compact ? -1 : 0 }, this._scene);
    this._empty = h("div", { class: "map-empty" }, h("span", { class: "spinner" }), h("span", { class: "map-empty-text" }, "Waiting for the overlay…"));
    this.element = h("div", { class: `map-box${compact ? " compact" : ""}` }, this._canvas, this._svg, this._empty);
    this._offs = [on("overlay", () => this._build()), on("state", () => this._paint())];
    this._resized = new ResizeObserver(debounced(() => this._build(), 60));
    this._resized.observe(this.element);
    if (!compact) this._interact();
    this._build();
  }

  close() {
    this._resized.disconnect();
    for (const off of this._offs) off();
    if (this._playing) cancelAnimationFrame(this._playing);
  }

  // -- geometry

  _build() {
    const overlay = store.overlay;
    const box = this.element.getBoundingClientRect();
    if (!overlay || box.width < 40) return;
    this._size = { width: box.width, height: Math.max(box.height, 160) };
    set(this._svg, { viewBox: `0 0 ${this._size.width} ${this._size.height}` });
    // Links that bow out of the columns need room, too.
    const ys = [overlay.bands[0].top, overlay.bands.at(-1).bottom];
    let least = Infinity, most = -Infinity;
    for (const [, , , line] of overlay.links) for (const [x] of line) (least = Math.min(least, x)), (most = Math.max(most, x));
    for (const { x } of overlay.brokers) (least = Math.min(least, x)), (most = Math.max(most, x));
    const side = this._compact ? 32 : box.width < 600 ? 40 : 64, top = this._compact ? 10 : 30, bottom = this._compact ? 8 : 8;
    const room = { x: this._size.width - 2 * side, y: this._size.height - top - bottom };
    const stretchX = most > least ? Math.min(room.x / (most - least), 560) : 0;
    const stretchY = Math.min(room.y / (ys[1] - ys[0]), 300);
    const usedX = (most - least) * stretchX, usedY = (ys[1] - ys[0]) * stretchY;
    const left = (this._size.width - usedX) / 2, above = top + Math.max(0, (room.y - usedY) / 2);
    this._at = ([x, y]) => [left + (x - least) * stretchX, above + (y - ys[0]) * stretchY];
    const columns = [...overlay.columns].sort((a, b) => a.x - b.x);
    this._pitch = columns.length > 1 ? Math.min(...columns.slice(1).map((c, i) => (c.x - columns[i].x) * stretchX)) : 200;
    this._bandPx = (overlay.bands[0].bottom - overlay.bands[0].top) * stretchY;
    this._draw(overlay);
    this._paint();
    this._move();
    if (this._filter) this.filter(this._filter);
    if (this._hops) this.showPath(this._hops);
  }

  _draw(overlay) {
    const bands = s("g"), links = s("g"), brokers = s("g");
    this._marks = s("g", { class: "marks" });
    this._path = s("g", { class: "path" });
    const [x0] = this._at([Math.min(...overlay.brokers.map((b) => b.x)), 0]), [x1] = this._at([Math.max(...overlay.brokers.map((b) => b.x)), 0]);
    const margin = Math.max(6, Math.min(x0 - (this._compact ? 4 : 24), this._size.width - x1 - 4, this._compact ? 40 : Math.min(150, Math.max(40, this._pitch / 2))));
    for (const band of overlay.bands) {
      const [, y0] = this._at([0, band.top]), [, y1] = this._at([0, band.bottom]);
      bands.append(s("rect", { class: "band", x: x0 - margin, y: y0, width: x1 - x0 + 2 * margin, height: y1 - y0, rx: 10, fill: band.colour }));
      const x = Math.max(11, x0 - margin - 7), y = (y0 + y1) / 2;
      if (!this._compact) bands.append(s("text", { class: "band-name", x, y, transform: `rotate(-90 ${x} ${y})` }, y1 - y0 > 62 ? `cluster ${band.cluster}` : String(band.cluster)));
    }
    if (!this._compact && this._pitch > 26) for (const column of overlay.columns) {
      const [x] = this._at([column.x, 0]), [, y] = this._at([0, overlay.bands[0].top]);
      bands.append(s("text", { class: "column-name", x, y: y - 10 }, this._pitch > 80 ? `region ${column.region}` : column.region));
    }
    this._once = overlay.links.length > BOTH_WAYS_MAX;
    this._canvas.hidden = !this._once;
    this._flowing = overlay.links.length * 2 <= FLOWS_MAX && !reducedMotion();
    this._links = [];
    overlay.links.forEach(([source, target, kind, line], index) => {
      const points = line.map((point) => this._at(point));
      if (this._once) return void this._links.push({ index: 2 * index, from: source, to: target, points, shape: new Path2D(curve(points)), kind });
      for (const way of [0, 1]) this._links.push(this._drawLink(links, index, way, way ? [...points].reverse() : points, kind, way ? [target, source] : [source, target]));
    });
    this._brokers = overlay.brokers.map((broker) => this._drawBroker(brokers, broker, overlay.bands[broker.cluster].colour));
    this._labels = s("g", { class: "path" });
    put(this._scene, bands, links, this._path, this._marks, brokers, this._labels);
  }

  _drawLink(parent, index, way, points, kind, [from, to]) {
    const overlay = store.overlay;
    const d = curve(beside(points, Math.max(1.6, Math.min(4, this._pitch / 24))));
    const title = `${overlay.brokers[from].id} → ${overlay.brokers[to].id}`;
    const line = s("path", { class: `link ${kind}`, d }, s("title", null, title));
    const flow = this._flowing ? s("path", { class: "flow", d }) : null;
    const link = { index: 2 * index + way, from, to, points, line, flow, title: line.firstChild, name: title, kind };
    parent.append(line);
    if (flow) parent.append(flow);
    if (this._onLink) {
      line.classList.add("pickable");
      const wide = s("path", { class: "grip", d });
      wide.addEventListener("click", () => this._onLink(overlay.brokers[from].id, overlay.brokers[to].id));
      wide.append(s("title", null, title));
      parent.append(wide);
    }
    return link;
  }

  _drawBroker(parent, broker, colour) {
    const [x, y] = this._at([broker.x, broker.y]);
    const roomy = this._pitch > 74 && this._bandPx > 60 && !this._compact, large = roomy && this._pitch > 200 && this._bandPx > 80;
    const labelled = this._pitch > 30 && this._bandPx > 18;
    const w = large ? 92 : roomy ? 66 : labelled ? Math.min(46, Math.max(26, this._pitch - 14)) : 0, hgt = large ? 54 : roomy ? 40 : 20;
    const radius = Math.max(2.5, Math.min(7, this._pitch / 4));
    const shape = w ? s("rect", { class: "broker", x: x - w / 2, y: y - hgt / 2, width: w, height: hgt, rx: 7, stroke: colour }) : s("circle", { class: "broker", cx: x, cy: y, r: radius, stroke: colour });
    const name = w ? s("text", { class: "broker-name", x, y: y + (roomy ? -5 : 3.5), "font-size": large ? 15 : roomy ? 12.5 : Math.min(10.5, w / 4) }, roomy ? broker.id : `${broker.region},${broker.cluster}`) : null;
    const numbers = roomy ? s("text", { class: "broker-numbers", x, y: y + (large ? 14 : 11), "font-size": large ? 12.5 : 10.5 }) : null;
    const title = s("title", null, broker.id);
    const mark = s("text", { class: "broker-mark", x: x + (w ? w / 2 - 9 : radius), y: y - (w ? hgt / 2 - 14 : radius) });
    const group = s("g", { class: "broker-group", tabindex: this._compact ? -1 : 0, role: "button", "data-broker": broker.id, "aria-label": `broker ${broker.id}` }, shape, name, numbers, mark, title);
    const open = () => this._onBroker(broker.id);
    group.addEventListener("click", open);
    group.addEventListener("keydown", (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), open()));
    parent.append(group);
    return { group, shape, numbers, title, mark, x, y, id: broker.id, w: w || radius * 2, h: w ? hgt : radius * 2 };
  }

  // -- state

  _paint() {
    const { overlay, state } = store;
    if (!overlay || !state || !this._links) return;
    this._empty.hidden = true;
    if (this._once) this._paintCanvas();
    else {
      const marks = [];
      for (const link of this._links) this._paintLink(link, marks);
      put(this._marks, marks);
    }
    this._brokers.forEach((broker, index) => this._paintBroker(broker, state.brokers[index]));
  }

  _row(link) {
    const rows = store.state.links, row = rows[link.index];
    if (!this._once) return row;
    const back = rows[link.index + 1];
    const bad = (each) => ["up", "overloaded", "avoided", "down"].indexOf(linkState(each));
    const worse = bad(back) > bad(row) ? back : row;
    return [(row[0] ?? 0) + (back[0] ?? 0), Math.max(row[1], back[1]), Math.max(row[2] ?? 0, back[2] ?? 0), worse[LINK.flags]];
  }

  _paintLink(link, marks) {
    const row = this._row(link), status = linkState(row), flow = row[LINK.rate] ?? 0;
    const small = this._pitch < 30;
    const thick = Math.min(width_(flow) * (small ? 0.45 : this._compact || this._pitch < 120 ? 0.68 : 1), small ? 3 : 9);
    const key = `${status} ${thick.toFixed(1)} ${(row[LINK.load] ?? 0).toFixed(2)} ${row[LINK.queue]}`;
    if (link.key !== key) {
      link.key = key;
      set(link.line, { class: `link ${link.kind} is-${status}${flow > 0 ? "" : " idle"}` });
      link.line.style.strokeWidth = status === "up" ? thick : Math.max(thick, small ? 2 : 3.2);
      link.line.style.stroke = status === "up" && flow > 0 ? loadColour(row[LINK.load] ?? 0) : "";
      link.title.textContent = `${link.name}: ${status}${status === "avoided" ? " (overloaded; copies go around it)" : ""}, ${rate(flow)}, Q_l ${count(row[LINK.queue])}, ${((row[LINK.load] ?? 0) * 100).toFixed(0)} % of τ`;
      if (link.flow) {
        link.flow.style.strokeWidth = Math.max(1, thick * 0.45);
        link.flow.style.animationDuration = flow > 0 ? `${Math.max(0.35, 2.4 - 0.55 * Math.log10(1 + flow))}s` : "";
        set(link.flow, { class: flow > 0 && status !== "down" ? "flow on" : "flow" });
      }
    }
    if (status === "up" || small || this._compact) return;
    const [x, y] = pointAt(link.points, 0.36), sign = { down: "✕", overloaded: "!", avoided: "↷" }[status];
    // Both directions of a dead link are one cross.
    if (status === "down" && link.index % 2) return;
    const at = status === "down" ? pointAt(link.points, 0.5) : [x, y];
    marks.push(s("g", { class: `mark is-${status}` }, s("circle", { cx: at[0], cy: at[1], r: 8.5 }), s("text", { x: at[0], y: at[1] + 4 }, sign), s("title", null, link.title.textContent)));
  }

  // Thousands of links are too many elements for a page, and nobody points at one of them.
  _paintCanvas() {
    const canvas = this._canvas, { width, height } = this._size, ratio = Math.min(devicePixelRatio || 1, 2), view = this._view;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    const draw = canvas.getContext("2d"), style = getComputedStyle(document.documentElement), thin = Math.max(0.35, Math.min(1, this._pitch / 60));
    draw.setTransform(1, 0, 0, 1, 0, 0);
    draw.clearRect(0, 0, canvas.width, canvas.height);
    draw.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
    const later = [];
    for (const link of this._links) {
      const row = this._row(link), status = linkState(row), flow = row[LINK.rate] ?? 0;
      if (status !== "up") {
        later.push([link, status]);
        continue;
      }
      const near = !this._found || this._found.has(link.from) || this._found.has(link.to);
      draw.globalAlpha = !near ? 0.06 : flow > 0 ? (this._found ? 0.9 : 0.6) : 0.4;
      draw.strokeStyle = flow > 0 ? loadColour(row[LINK.load] ?? 0) : style.getPropertyValue("--idle");
      draw.lineWidth = Math.min(width_(flow) * thin, 6 / Math.sqrt(view.scale));
      draw.stroke(link.shape);
    }
    draw.globalAlpha = 1;
    for (const [link, status] of later) {
      draw.setLineDash(status === "down" ? [1.5, 4] : status === "avoided" ? [3, 4] : [7, 3]);
      draw.strokeStyle = status === "down" ? style.getPropertyValue("--faint") : "#c8440a";
      draw.lineWidth = 2.2 / Math.sqrt(view.scale);
      draw.stroke(link.shape);
    }
    draw.setLineDash([]);
  }

  _paintBroker(broker, row) {
    const status = STATUS[row[BROKER.status]];
    const faded = this._filter && !broker.id.toLowerCase().includes(this._filter) && !status.includes(this._filter);
    const overloaded = status === "ok" && row[BROKER.overloaded];
    set(broker.group, { class: `broker-group is-${status}${overloaded ? " is-busy" : ""}${faded ? " faded" : ""}${broker.id === this._chosen ? " chosen" : ""}` });
    const text = status === "ok" ? `${count(row[BROKER.delivered])} out/s` : status;
    if (broker.numbers && broker.numbers.textContent !== text) broker.numbers.textContent = text;
    const mark = status === "down" ? "✕" : status === "wrong" ? "?" : overloaded ? "!" : "";
    if (broker.mark.textContent !== mark) broker.mark.textContent = mark;
    const title = `${broker.id}: ${status}${row[BROKER.overloaded] ? `, ${row[BROKER.overloaded]}` : ""}\n${count(row[BROKER.clients])} clients, ${rate(row[BROKER.published])} in, ${rate(row[BROKER.delivered])} delivered, Q_l ${count(row[BROKER.queue])}`;
    if (broker.title.textContent !== title) broker.title.textContent = title;
    if (!this._once) set(broker.group, { "aria-label": `broker ${title}` });
  }

  choose(id) {
    this._chosen = id;
    if (store.state && this._brokers) this._paint();
  }

  filter(text) {
    this._filter = text.trim().toLowerCase();
    const hits = (store.overlay?.brokers ?? []).flatMap((broker, index) => (broker.id.toLowerCase().includes(this._filter) ? [index] : []));
    this._found = this._filter ? new Set(hits) : null;
    if (store.state && this._brokers) this._paint();
    if (!this._filter || !this._brokers) return;
    const found = this._brokers.filter((broker) => broker.id.toLowerCase().includes(this._filter));
    if (found.length && found.length <= Math.max(3, this._brokers.length / 10) && this._pitch < 40) this._show(found);
  }

  // -- zoom and pan

  _interact() {
    const svg = this._svg;
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaY) < 1) return;
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    const fingers = new Map();
    svg.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, event);
    });
    svg.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (!before) return;
      const others = [...fingers.values()].filter((each) => each.pointerId !== event.pointerId);
      if (others.length) {
        const other = others[0], box = svg.getBoundingClientRect();
        const far = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
        this.zoom(far(event) / far(before), (event.clientX + other.clientX) / 2 - box.left, (event.clientY + other.clientY) / 2 - box.top);
      } else if (this._view.scale > 1) {
        svg.setPointerCapture(event.pointerId);
        this._view.x += event.clientX - before.clientX;
        this._view.y += event.clientY - before.clientY;
        this._move();
      }
      fingers.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) svg.addEventListener(end, (event) => fingers.delete(event.pointerId));
    svg.addEventListener("dblclick", (event) => this.zoom(2, event.offsetX, event.offsetY));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      if (event.key === "+" || event.key === "=") this.zoom(1.4);
      else if (event.key === "-") this.zoom(1 / 1.4);
      else if (event.key === "0") this.reset();
      else if (step && this._view.scale > 1) {
        event.preventDefault();
        this._view.x += step[0];
        this._view.y += step[1];
        this._move();
      }
    });
  }

  zoom(times, x = this._size.width / 2, y = this._size.height / 2) {
    const view = this._view, scale = Math.min(24, Math.max(1, view.scale * times)), by = scale / view.scale;
    Object.assign(view, { scale, x: x - (x - view.x) * by, y: y - (y - view.y) * by });
    this._move();
  }

  reset() {
    this._view = { x: 0, y: 0, scale: 1 };
    this._move();
  }

  _show(brokers) {
    const x = brokers.reduce((sum, b) => sum + b.x, 0) / brokers.length, y = brokers.reduce((sum, b) => sum + b.y, 0) / brokers.length;
    const scale = Math.min(12, Math.max(2, 90 / this._pitch));
    this._view = { scale, x: this._size.width / 2 - x * scale, y: this._size.height / 2 - y * scale };
    this._move();
  }

  _move() {
    const view = this._view, { width, height } = this._size ?? { width: 0, height: 0 };
    view.x = Math.min(0, Math.max(width * (1 - view.scale), view.x));
    view.y = Math.min(0, Math.max(height * (1 - view.scale), view.y));
    set(this._scene, { transform: `translate(${view.x.toFixed(1)} ${view.y.toFixed(1)}) scale(${view.scale.toFixed(3)})` });
    this.element.classList.toggle("zoomed", view.scale > 1.01);
    this._nameDots();
    if (this._once && store.state && this._links && !this._due) this._due = requestAnimationFrame(() => ((this._due = 0), this._paintCanvas()));
  }

  // Dots get names when they are near enough to read them.
  _nameDots() {
    if (!this._brokers || this._pitch > 30) return;
    const near = this._view.scale * this._pitch > 34;
    for (const broker of this._brokers) {
      if (near && !broker.label) {
        broker.label = s("text", { class: "dot-name", x: broker.x, y: broker.y - broker.h * 0.7, "font-size": (10.5 / this._view.scale).toFixed(2) }, broker.id);
        broker.group.append(broker.label);
      } else if (broker.label) {
        broker.label.toggleAttribute("hidden", !near);
        if (near) set(broker.label, { "font-size": (10.5 / this._view.scale).toFixed(2), y: broker.y - broker.h * 0.7 });
      }
    }
  }

  // -- a path, hop by hop

  showPath(hops) {
    // hops: [{from, to, label, at}] in order of time; at in seconds since the first
    this._hops = hops;
    if (!this._path) return;
    put(this._path);
    put(this._labels);
    if (this._playing) cancelAnimationFrame(this._playing);
    this._scene.classList.toggle("has-path", hops.length > 0);
    if (!hops.length || !this._links) return;
    const find = (one, other) => this._links.find((link) => store.overlay.brokers[link.from].id === one && store.overlay.brokers[link.to].id === other) ?? this._mirrored(one, other);
    const arrows = hops.map((hop, index) => ({ hop, link: find(hop.from, hop.to), begin: index * 420 })).filter((each) => each.link);
    for (const arrow of arrows) {
      arrow.line = s("path", { class: "hop", d: curve(beside(arrow.link.points, 0)), pathLength: 1 });
      const [x, y] = pointAt(arrow.link.points, 0.5);
      const lines = [arrow.hop.label, arrow.hop.time].filter(Boolean);
      const half = 9 + 3.4 * Math.max(...lines.map((line) => line.length));
      arrow.label = s("g", { class: `hop-label${arrow.hop.arrived === false ? " stuck" : ""}` }, s("rect", { x: x - half, y: y - 9 * lines.length, width: 2 * half, height: 17 * lines.length, rx: 5 }), lines.map((line, at) => s("text", { x, y: y + 4 + (at - (lines.length - 1) / 2) * 15 }, line)));
      const tip = pointAt(arrow.link.points, 0.78), before = pointAt(arrow.link.points, 0.75);
      const turn = (Math.atan2(tip[1] - before[1], tip[0] - before[0]) * 180) / Math.PI;
      arrow.head = s("path", { class: "hop-head", d: "M-7 -7L8 0L-7 7z", transform: `translate(${tip[0].toFixed(1)} ${tip[1].toFixed(1)}) rotate(${turn.toFixed(1)})` });
      this._path.append(arrow.line, arrow.head);
      this._labels.append(arrow.label);
    }
    const quick = reducedMotion(), start = performance.now();
    const step = (now) => {
      let going = false;
      for (const arrow of arrows) {
        const share = quick ? 1 : Math.min(1, Math.max(0, (now - start - arrow.begin) / 400));
        arrow.line.style.strokeDashoffset = 1 - share;
        arrow.label.classList.toggle("on", share > 0.5);
        arrow.head.classList.toggle("on", share > 0.75);
        going ||= share < 1;
      }
      if (going) this._playing = requestAnimationFrame(step);
    };
    step(start);
  }

  _mirrored(one, other) {
    const link = this._links.find((each) => store.overlay.brokers[each.to].id === one && store.overlay.brokers[each.from].id === other);
    return link && { ...link, points: [...link.points].reverse() };
  }
}

// -- lines

function beside(points, distance) {
  if (!distance) return points;
  return points.map(([x, y], at) => {
    const [ax, ay] = points[Math.max(at - 1, 0)], [bx, by] = points[Math.min(at + 1, points.length - 1)];
    const long = Math.hypot(bx - ax, by - ay) || 1;
    return [x - (distance * (by - ay)) / long, y + (distance * (bx - ax)) / long];
  });
}

function curve(points) {
  const p = (at) => points[Math.max(0, Math.min(points.length - 1, at))];
  let d = `M${p(0)[0].toFixed(1)} ${p(0)[1].toFixed(1)}`;
  if (points.length === 2) return `${d}L${p(1)[0].toFixed(1)} ${p(1)[1].toFixed(1)}`;
  for (let at = 0; at < points.length - 1; at++) {
    const [a, b, c, e] = [p(at - 1), p(at), p(at + 1), p(at + 2)];
    d += `C${[b[0] + (c[0] - a[0]) / 6, b[1] + (c[1] - a[1]) / 6, c[0] - (e[0] - b[0]) / 6, c[1] - (e[1] - b[1]) / 6, c[0], c[1]].map((n) => n.toFixed(1)).join(" ")}`;
  }
  return d;
}

function pointAt(points, share) {
  const lengths = points.slice(1).map(([x, y], at) => Math.hypot(x - points[at][0], y - points[at][1]));
  let left = share * lengths.reduce((sum, each) => sum + each, 0);
  for (let at = 0; at < lengths.length; at++) {
    if (left <= lengths[at]) {
      const part = lengths[at] ? left / lengths[at] : 0;
      return [points[at][0] + (points[at + 1][0] - points[at][0]) * part, points[at][1] + (points[at + 1][1] - points[at][1]) * part];
    }
    left -= lengths[at];
  }
  return points.at(-1);
}

// -- the view

export function mapView(root, given) {
  const search = h("input", { type: "search", class: "map-filter", placeholder: "Filter brokers…", "aria-label": "Filter brokers", value: given.q ?? "" });
  const map = new OverlayMap();
  search.addEventListener("input", () => {
    map.filter(search.value);
    remember({ q: search.value });
  });
  const button = (label, text, act) => h("button", { type: "button", class: "tool", "aria-label": label, title: label, onclick: act }, text);
  const tools = h("div", { class: "map-tools" }, search, button("Zoom in", "+", () => map.zoom(1.5)), button("Zoom out", "−", () => map.zoom(1 / 1.5)), button("Show all", "⤢", () => map.reset()));
  put(root, h("section", { class: "map-view" }, map.element, h("div", { class: "map-foot" }, legend(), tools)));
  if (given.q) map.filter(given.q);
  return { close: () => map.close(), map };
}

function legend() {
  const swatch = (kind, text) => h("span", { class: "key" }, s("svg", { viewBox: "0 0 34 14", class: "swatch" }, s("path", { class: `link is-${kind}`, d: "M1 7H33" }), { down: s("text", { x: 17, y: 11 }, "✕"), overloaded: s("text", { x: 17, y: 11 }, "!"), avoided: s("text", { x: 17, y: 11 }, "↷") }[kind] ?? null), text);
  const ramp = s("svg", { viewBox: "0 0 90 14", class: "swatch wide" }, [...Array(9).keys()].map((at) => {
    const bit = s("rect", { x: at * 10, y: 7 - (1 + at * 0.4), width: 10.4, height: 2 + at * 0.8 });
    bit.style.fill = loadColour(at / 8.9);
    return bit;
  }));
  return h("div", { class: "legend" }, h("span", { class: "key" }, ramp, "width: rate · colour: Q_l of 0 to τ"), swatch("overloaded", "overloaded"), swatch("avoided", "overloaded, detoured around"), swatch("down", "down"));
}
