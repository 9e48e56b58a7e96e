// A table that is searched, sorted and paged by the server: the page never holds more than one page of rows.

import { h, put, ask, query, debounced, count } from "./dom.js";
import { remember } from "./store.js";

const LIMIT = 50;

export class Table {
  // columns: [{ key, label, show(row), numeric }]
  constructor(source, columns, { table, broker = "", sort = "", q = "", keep = () => {}, every = 0, placeholder = "Search…" }) {
    Object.assign(this, { _source: source, _columns: columns, _table: table, _broker: broker, _sort: sort, _q: q, _offset: 0, _keep: keep, _asked: 0 });
    const search = h("input", { type: "search", placeholder, value: q, "aria-label": `Search ${table}` });
    const renew = debounced(() => {
      this._q = search.value;
      this._offset = 0;
      this._remember();
      this.load();
    }, 200);
    search.addEventListener("input", renew);
    this._body = h("tbody");
    this._head = h("tr");
    this._foot = h("div", { class: "table-foot" });
    this._problem = h("div", { class: "problem", role: "alert", hidden: true });
    this.element = h("div", { class: "table-box" }, h("div", { class: "table-tools" }, search, this._foot), this._problem, h("div", { class: "table-scroll" }, h("table", null, h("thead", null, this._head), this._body)));
    this._heads();
    this.load();
    if (every) this._timer = setInterval(() => document.visibilityState === "visible" && !this._busy && this.load(), every * 1000);
  }

  close() {
    clearInterval(this._timer);
  }

  _remember() {
    this._keep({ q: this._q, sort: this._sort });
  }

  _heads() {
    put(this._head, this._columns.map((column) => {
      const down = this._sort === `-${column.key}`, up = this._sort === column.key;
      return h("th", { class: column.numeric ? "number" : "", "aria-sort": down ? "descending" : up ? "ascending" : "none" }, h("button", { type: "button", onclick: () => this._sortBy(column) }, column.label, h("span", { class: "sign" }, down ? " ▾" : up ? " ▴" : "")));
    }));
  }

  _sortBy(column) {
    const first = column.numeric ? `-${column.key}` : column.key, second = column.numeric ? column.key : `-${column.key}`;
    this._sort = this._sort === first ? second : this._sort === second ? "" : first;
    this._offset = 0;
    this._remember();
    this._heads();
    this.load();
  }

  async load() {
    const asked = ++this._asked;
    this._busy = true;
    try {
      const page = await ask(`/api/tables?${query({ broker: this._broker, table: this._table, q: this._q, sort: this._sort, offset: this._offset, limit: LIMIT })}`);
      if (asked === this._asked) this._show(page);
    } catch (error) {
      if (asked === this._asked) this._fail(error);
    } finally {
      this._busy = false;
    }
  }

  _fail(error) {
    this._problem.hidden = false;
    this._problem.textContent = error.message;
  }

  _show(page) {
    this._problem.hidden = true;
    put(this._body, page.rows.map((row) => h("tr", null, this._columns.map((column) => h("td", { class: column.numeric ? "number" : "" }, column.show ? column.show(row) : text(row[column.key]))))));
    if (!page.rows.length) put(this._body, h("tr", null, h("td", { colspan: this._columns.length, class: "none" }, this._q ? "Nothing matches." : "None.")));
    const last = page.offset + page.rows.length, many = page.matched > LIMIT;
    const step = (label, to, can) => h("button", { type: "button", disabled: !can, onclick: () => ((this._offset = to), this.load()) }, label);
    put(this._foot, h("span", null, page.rows.length ? `${count(page.offset + 1)}–${count(last)} of ${page.complete ? "" : "at least "}${count(page.matched)}` : "0", this._q && page.total !== page.matched ? ` (of ${count(page.total)})` : ""), many && [step("‹", Math.max(0, page.offset - LIMIT), page.offset > 0), step("›", page.offset + LIMIT, last < page.matched)]);
  }
}

export const text = (value) => (value === null || value === undefined || value === "" ? "–" : value === true ? "yes" : value === false ? "no" : typeof value === "number" ? count(value) : String(value));
