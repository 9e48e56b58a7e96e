// Charts of series over time, on a canvas: a line each, a reading under the pointer, at most an hour.

import { h, clock, ask, query } from "./dom.js";
import { on, store } from "./store.js";

const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4"];

export function sparkline(points, { width = 90, height = 22 } = {}) {
  const canvas = h("canvas", { class: "spark", width: width * 2, height: height * 2, role: "img", "aria-label": "trend" });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const draw = canvas.getContext("2d"), known = points.filter((value) => value !== null);
  const most = Math.max(...known, 1e-9);
  draw.scale(2, 2);
  draw.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--series-1");
  draw.lineWidth = 1.3;
  draw.beginPath();
  let pen = false;
  points.forEach((value, at) => {
    if (value === null) return void (pen = false);
    const x = 1 + ((width - 2) * at) / Math.max(points.length - 1, 1), y = height - 2 - ((height - 4) * value) / most;
    if (pen) draw.lineTo(x, y);
    else draw.moveTo(x, y);
    pen = true;
  });
  draw.stroke();
  return canvas;
}

export class Chart {
  // series: [{ name (of the history), label, total (key of the totals, to append live) }]
  constructor(title, series, { format = String, seconds = 900, note = "" } = {}) {
    this._series = series.map((each) => ({ ...each, points: [] }));
    this._format = format;
    this._seconds = seconds;
    this._canvas = h("canvas", { class: "chart", role: "img", "aria-label": title });
    this._note = h("span", { class: "chart-note" }, note);
    this._readings = this._series.map(() => h("b", null, "–"));
    const keys = this._series.map((each, at) => {
      const key = h("span", { class: "chart-key" }, h("i", { class: `dot s${at + 1}` }), each.label, this._readings[at]);
      return key;
    });
    this.element = h("figure", { class: "chart-box" }, h("figcaption", null, h("span", { class: "chart-title" }, title), keys, this._note), this._canvas);
    this._canvas.addEventListener("pointermove", (event) => this._hover(event.offsetX));
    this._canvas.addEventListener("pointerleave", () => this._hover(null));
    this._resized = new ResizeObserver(() => this._draw());
    this._resized.observe(this._canvas);
    this._off = on("state", (state) => this._append(state));
    this.load();
  }

  close() {
    this._resized.disconnect();
    this._off();
  }

  range(seconds) {
    this._seconds = seconds;
    this.load();
  }

  async load() {
    const names = this._series.map((each) => ["name", each.name]);
    try {
      const answer = await ask(`/api/history?${new URLSearchParams([...names, ["seconds", this._seconds]])}`);
      for (const each of this._series) each.points = answer.series[each.name] ?? [];
    } catch {
      // What comes live is shown all the same.
    }
    this._draw();
  }

  _append(state) {
    for (const each of this._series) {
      const value = each.live?.(state) ?? (each.total ? state.totals[each.total] : undefined);
      if (value === undefined) continue;
      each.points.push([state.time, value]);
      while (each.points.length && each.points[0][0] < state.time - this._seconds) each.points.shift();
    }
    this._draw();
  }

  _hover(x) {
    this._at = x;
    this._draw();
  }

  _draw() {
    const canvas = this._canvas, box = canvas.getBoundingClientRect();
    if (box.width < 20) return;
    const ratio = devicePixelRatio || 1;
    canvas.width = box.width * ratio;
    canvas.height = box.height * ratio;
    const draw = canvas.getContext("2d"), style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name);
    draw.scale(ratio, ratio);
    const left = 46, bottom = 18, right = box.width - 6, top = 6, floor = box.height - bottom;
    const now = store.state?.time ?? Date.now() / 1000, oldest = Math.min(...this._series.map((each) => each.points[0]?.[0] ?? now));
    // A console that has just started shows its first minute large.
    const span = Math.min(this._seconds, Math.max(60, now - oldest)), begin = now - span;
    const known = this._series.flatMap((each) => each.points.map(([, value]) => value ?? 0));
    const most = nice(Math.max(...known, 1e-6)), x = (time) => left + ((time - begin) / span) * (right - left), y = (value) => floor - (value / most) * (floor - top);
    draw.font = "10.5px system-ui, sans-serif";
    draw.fillStyle = colour("--faint");
    draw.strokeStyle = colour("--line");
    draw.lineWidth = 1;
    for (const share of [0, 0.5, 1]) {
      const at = Math.round(y(most * share)) + 0.5;
      draw.beginPath();
      draw.moveTo(left, at);
      draw.lineTo(right, at);
      draw.stroke();
      draw.textAlign = "right";
      draw.fillText(this._format(most * share), left - 5, at + 3.5);
    }
    draw.textAlign = "center";
    for (const share of [0.15, 0.5, 0.85]) draw.fillText(clock(begin + span * share), left + share * (right - left), box.height - 4);
    this._series.forEach((each, at) => {
      draw.strokeStyle = colour(COLOURS[at]);
      draw.lineWidth = 1.7;
      draw.setLineDash(at === 0 ? [] : at === 1 ? [] : [5, 3]);
      draw.beginPath();
      let pen = false, last = 0;
      for (const [time, value] of each.points) {
        if (value === null || time < begin) {
          pen = false;
          continue;
        }
        if (pen && time - last < Math.max(6, span / 60)) draw.lineTo(x(time), y(value));
        else draw.moveTo(x(time), y(value));
        pen = true;
        last = time;
      }
      draw.stroke();
    });
    draw.setLineDash([]);
    this._read(draw, span, begin, left, right, top, floor, colour("--faint"));
  }

  _read(draw, span, begin, left, right, top, floor, faint) {
    let time = Infinity;
    if (this._at !== null && this._at !== undefined && this._at >= left) {
      time = begin + ((this._at - left) / (right - left)) * span;
      draw.strokeStyle = faint;
      draw.beginPath();
      draw.moveTo(this._at, top);
      draw.lineTo(this._at, floor);
      draw.stroke();
      this._note.textContent = clock(time);
    } else this._note.textContent = "";
    this._series.forEach((each, at) => {
      let found = null;
      for (const [when, value] of each.points) {
        if (when > time) break;
        found = value;
      }
      const text = found === null || found === undefined ? "–" : this._format(found);
      if (this._readings[at].textContent !== text) this._readings[at].textContent = text;
    });
  }
}

function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) if (value <= step * power) return step * power;
  return value;
}
