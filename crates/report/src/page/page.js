// The interactive part of a page: charts, and search in tables. All data is embedded in the page.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = 8, PANEL = 150, ROW = 16, DENSITY = 34, TOLD = 12, DASH = 14;
  const FLAG = { wide: 16, high: 14 }, LEVELS = ["info", "warning", "critical"];
  const KEYS = "Arrow keys move the cursor, with Shift they move the view, plus and minus zoom, Home shows all, " +
    "N and P go to the next and the previous mark.";

  // --- Formatting of numbers

  function rounded(number) {
    const size = Math.abs(number);
    return String(Number(number.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0)));
  }

  function bytes(number) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let at = 0, scaled = Math.abs(number);
    while (scaled >= 1023.5 && at < units.length - 1) { scaled /= 1024; at += 1; }
    return (number < 0 ? "-" : "") + rounded(scaled) + " " + units[at];
  }

  function label(value, unit) {
    switch (unit) {
      case "bytes": return bytes(value);
      case "bytes_per_second": return bytes(value) + "/s";
      case "percent": return rounded(value) + " %";
      case "watts": return rounded(value) + " W";
      case "celsius": return rounded(value) + " °C";
      default: return rounded(value);
    }
  }

  function duration(ns) {
    const sign = ns < 0 ? "-" : "";
    ns = Math.abs(ns);
    if (ns === 0) return "0";
    if (ns < 1e3) return sign + Math.round(ns) + " ns";
    if (ns < 999.5e3) return sign + rounded(ns / 1e3) + " µs";
    if (ns < 999.5e6) return sign + rounded(ns / 1e6) + " ms";
    if (ns < 59.95e9) return sign + rounded(ns / 1e9) + " s";
    const seconds = Math.round(ns / 1e9), minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
    const two = (large, small) => sign + (small[0] ? `${large} ${small}` : large);
    const part = (number, unit) => (number ? `${number} ${unit}` : "");
    if (hours === 0) return two(`${minutes} min`, part(seconds % 60, "s"));
    if (hours < 24) return two(`${hours} h`, part(minutes % 60, "min"));
    return two(`${Math.floor(hours / 24)} d`, part(hours % 24, "h"));
  }

  function nice(rough) {
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= rough * 0.999) || power * 10;
  }

  // Uses halves and quarters of the next unit instead of hundreds.
  function niceBytes(rough) {
    let unit = 1;
    while (rough >= unit * 1024) unit *= 1024;
    const step = rough > unit * 50 && [128, 256, 512, 1024].find((step) => step >= rough / unit * 0.999);
    return unit * (step || nice(rough / unit));
  }

  function timeStep(rough) {
    const seconds = rough / 1e9;
    if (seconds < 20) return nice(rough);
    const steps = [30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800];
    return (steps.find((step) => step >= seconds) || nice(seconds / 86400) * 86400) * 1e9;
  }

  // Returns ticks from at or below `bottom` to at or above `top`.
  function ticks(bottom, top, unit, count) {
    const rough = Math.max(top - bottom, Number.MIN_VALUE * 1e20) / count;
    const step = unit.startsWith("bytes") ? niceBytes(rough) : nice(rough);
    const first = Math.floor(bottom / step), last = Math.max(Math.ceil(top / step), first + 1);
    return Array.from({ length: Math.min(last - first, 64) + 1 }, (_, at) => (first + at) * step);
  }

  // --- Elements

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function shape(parent, name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  function cut(text, most) {
    const characters = Array.from(text);
    return characters.length <= most ? text : characters.slice(0, Math.max(most - 1, 0)).join("") + "…";
  }

  // --- Charts

  function decoded(line, tick) {
    let at = 0, value = 0;
    const times = line.t.map((step) => (at += step) * tick);
    const values = line.whole ? line.v.map((step) => (value += step)) : line.v;
    return { ...line, times, values };
  }

  // Decodes a panel and its curves. If there are too many curves for the colours, only suspects are
  // coloured.
  function unpacked(panel, tick) {
    const lines = panel.lines.map((line) => decoded(line, tick));
    const suspects = lines.filter((line) => line.suspect).length;
    const grey = lines.length > COLOURS && suspects > 0 && suspects < lines.length;
    lines.forEach((line, number) => { line.colour = grey && !line.suspect ? "other" : `c${number % COLOURS}`; });
    return { ...panel, lines, grey, suspects, told: lines.slice(0, grey ? Math.min(suspects, TOLD) : TOLD) };
  }

  // Splits overlapping spans into separate ones. Each has the worst level of the spans that cover
  // it.
  function stretches(spans) {
    const edges = [...new Set(spans.flatMap(([from, to]) => [from, to]))].sort((one, other) => one - other);
    const made = [];
    for (let at = 0; at + 1 < edges.length; at += 1) {
      const over = spans.filter(([from, to]) => from <= edges[at] && to >= edges[at + 1]).map((span) => span[2]);
      if (over.length === 0) continue;
      const level = Math.max(...over), last = made[made.length - 1];
      if (last && last[1] === edges[at] && last[2] === level) last[1] = edges[at + 1];
      else made.push([edges[at], edges[at + 1], level]);
    }
    return made;
  }

  // Returns the first index whose time is not before `at`.
  function index(times, at) {
    let low = 0, high = times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < at) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Returns the sample to show for a time: the nearest, or for steps the one whose interval
  // contains it.
  function nearest(line, at) {
    const next = index(line.times, at);
    if (next === 0) return 0;
    if (next === line.times.length) return next - 1;
    if (line.step) return next;
    return line.times[next] - at < at - line.times[next - 1] ? next : next - 1;
  }

  class Chart {
    constructor(figure, data) {
      this.data = data;
      this.length = Math.max(data.length, 1);
      this.from = 0;
      this.to = this.length;
      this.cursor = null;
      this.found = null;
      this.panels = data.panels.map((panel) => unpacked(panel, data.tick));
      this.marked = data.marks.map(([at, end, level, text, panel], number) =>
        ({ at, end, level, text, panel, number: number + 1, rank: LEVELS.indexOf(level), long: end - at > this.length / 2 }));
      // The keys N and P visit marks in the order of time. At the same time, the worst comes first.
      this.inTime = [...this.marked].sort((one, other) => one.at - other.at || one.number - other.number);
      this.mark = null;
      this.rows = data.bars.reduce((most, bar) => Math.max(most, bar[2] + 1), 0);
      // Draw failed tasks last, over other tasks at the same pixel.
      const failed = (bar) => Number(bar[3] === "failed");
      this.drawn = [...data.bars].sort((one, other) => failed(one) - failed(other));
      this.build(figure);
      new ResizeObserver(() => this.draw()).observe(this.box);
      this.draw();
    }

    build(figure) {
      figure.querySelector(".static").hidden = true;
      const button = (text, name, act) => {
        const made = element("button", { type: "button", "aria-label": name, title: name }, text);
        made.addEventListener("click", act);
        return made;
      };
      const tools = element("div", { class: "tools", role: "toolbar", "aria-label": "View" },
        button("+", "Zoom in", () => this.zoom(0.5)),
        button("−", "Zoom out", () => this.zoom(2)),
        button("◀", "Earlier", () => this.pan(-0.25)),
        button("▶", "Later", () => this.pan(0.25)),
        button("All", "Show all", () => this.show(0, this.length)));
      this.range = element("span", { class: "quiet range" });
      tools.append(this.range);
      this.svg = document.createElementNS(SVG, "svg");
      this.svg.setAttribute("aria-hidden", "true");
      this.tip = element("div", { class: "tip" });
      this.tip.hidden = true;
      this.told = element("div", { class: "screen-reader", "aria-live": "polite" });
      this.box = element("div", {
        class: "live", tabindex: "0", role: "application",
        "aria-label": (figure.getAttribute("aria-label") || "Picture") + ". " + KEYS, "aria-roledescription": "timeline",
      }, this.svg, this.tip, this.told);
      figure.append(tools, this.box,
        element("details", { class: "quiet" }, element("summary", {}, "Drag to zoom in, double click for all; more ways to look around"),
          element("p", {}, "Shift and drag to move, Ctrl and the wheel to zoom. " + KEYS)));
      this.listen();
    }

    listen() {
      const at = (event) => {
        const box = this.svg.getBoundingClientRect();
        return { x: event.clientX - box.left, y: event.clientY - box.top };
      };
      const pointers = new Map();
      let drag = null;
      this.svg.addEventListener("pointerdown", (event) => {
        pointers.set(event.pointerId, at(event));
        this.point(this.time(at(event).x), at(event));
        if (pointers.size === 2) {
          const [one, two] = [...pointers.values()];
          drag = { kind: "pinch", wide: Math.abs(one.x - two.x) || 1, middle: this.time((one.x + two.x) / 2), from: this.from, to: this.to };
        } else {
          const kind = event.shiftKey || event.pointerType === "touch" ? "pan" : "select";
          drag = { kind, start: at(event), from: this.from, to: this.to };
        }
        if (event.isTrusted) this.svg.setPointerCapture(event.pointerId);
      });
      this.svg.addEventListener("pointermove", (event) => {
        const here = at(event);
        if (pointers.has(event.pointerId)) pointers.set(event.pointerId, here);
        if (drag && drag.kind === "pinch" && pointers.size === 2) {
          const [one, two] = [...pointers.values()];
          const scale = drag.wide / (Math.abs(one.x - two.x) || 1);
          this.show(drag.middle - (drag.middle - drag.from) * scale, drag.middle + (drag.to - drag.middle) * scale);
        } else if (drag && drag.kind === "pan") {
          const moved = (here.x - drag.start.x) / this.wide * (drag.to - drag.from);
          this.show(drag.from - moved, drag.to - moved);
        } else if (drag && drag.kind === "select") {
          this.selected = Math.abs(here.x - drag.start.x) > 4 ? [drag.start.x, here.x] : null;
        }
        this.point(this.time(here.x), here);
      });
      const end = (event) => {
        pointers.delete(event.pointerId);
        const selected = this.selected;
        drag = null;
        this.selected = null;
        if (selected && event.type === "pointerup") {
          const times = selected.map((x) => this.time(x)).sort((one, other) => one - other);
          this.show(times[0], times[1]);
        }
      };
      this.svg.addEventListener("pointerup", end);
      this.svg.addEventListener("pointercancel", end);
      // Lifting a finger also fires this event, but the tooltip should stay readable.
      this.svg.addEventListener("pointerleave", (event) => { if (!drag && event.pointerType !== "touch") this.point(null); });
      this.svg.addEventListener("dblclick", () => this.show(0, this.length));
      this.svg.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.time(at(event).x));
      }, { passive: false });
      this.box.addEventListener("keydown", (event) => this.key(event));
      this.box.addEventListener("blur", () => this.point(null));
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const step = (this.to - this.from) / 100;
      const here = this.cursor === null ? this.from : this.cursor;
      const middle = this.cursor === null ? (this.from + this.to) / 2 : this.cursor;
      const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (sideways && event.shiftKey) this.pan(sideways * 0.25);
      else if (sideways) this.say(this.cursor === null ? here : Math.min(Math.max(here + sideways * step, 0), this.length));
      else if (event.key === "+" || event.key === "=" || event.key === "ArrowUp") this.zoom(0.5, middle);
      else if (event.key === "-" || event.key === "ArrowDown") this.zoom(2, middle);
      else if (event.key === "Home" || event.key === "0") this.show(0, this.length);
      else if (event.key === "Escape") this.point(null);
      else if (event.key === "n" || event.key === "p") this.toMark(event.key === "n" ? 1 : -1);
      else return;
      event.preventDefault();
    }

    toMark(direction) {
      const all = this.inTime, known = this.cursor === null || this.mark === null ? -1 : all.indexOf(this.mark);
      // Without a cursor, start from the edge of the view.
      const here = this.cursor === null ? (direction > 0 ? this.from : this.to) : this.cursor;
      const isNext = (mark) => (direction > 0 ? mark.at >= here : mark.at <= here);
      const next = known >= 0 ? all[known + direction] : direction > 0 ? all.find(isNext) : all.findLast(isNext);
      if (next !== undefined) this.say(next.at, next);
    }

    // Moves the cursor to a time and announces what is there, for keyboard use.
    say(at, mark) {
      if (at < this.from || at > this.to) {
        const half = (this.to - this.from) / 2;
        this.show(at - half, at + half);
      }
      this.point(at, undefined, mark);
      this.told.textContent = this.lines(this.cursor).map((line) => line.text).join(". ");
    }

    zoom(scale, around) {
      const middle = around === undefined ? (this.cursor === null ? (this.from + this.to) / 2 : this.cursor) : around;
      this.show(middle - (middle - this.from) * scale, middle + (this.to - middle) * scale);
    }

    pan(share) {
      const step = (this.to - this.from) * share;
      this.show(this.from + step, this.to + step);
    }

    show(from, to) {
      const wide = Math.min(Math.max(to - from, Math.min(this.length, 100)), this.length);
      this.from = Math.min(Math.max(from, 0), this.length - wide);
      this.to = this.from + wide;
      this.draw();
    }

    x(at) { return this.left + (at - this.from) / (this.to - this.from) * this.wide; }
    time(x) { return this.from + (x - this.left) / this.wide * (this.to - this.from); }

    draw() {
      const width = Math.max(this.box.clientWidth, 240);
      this.left = width < 560 ? 62 : 80;
      this.wide = width - this.left - 12;
      const svg = this.svg;
      svg.replaceChildren();
      const grid = shape(svg, "g", {}), washes = shape(svg, "g", {});
      let y = 6;
      // The areas of curves and bars, panels first.
      this.areas = [];
      this.panels.forEach((panel) => { y = this.panel(svg, panel, y); });
      if (this.data.density.length) y = this.density(svg, y);
      this.barsTop = null;
      if (this.rows) y = this.bars(svg, y);
      this.axis(grid, y);
      this.washes(washes);
      this.marks(svg);
      this.bottom = y;
      const height = y + 24;
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.setAttribute("height", height);
      svg.dataset.from = this.from;
      svg.dataset.to = this.to;
      this.over = shape(svg, "g", {});
      this.range.textContent = `${duration(this.from)} to ${duration(this.to)}`;
      this.point(this.cursor, this.here, this.mark);
    }

    text(parent, x, y, text, attributes) {
      return shape(parent, "text", { x, y, "font-size": 11, class: "quiet", ...attributes }, text);
    }

    panel(svg, panel, y) {
      this.text(svg, this.left, y + 12, cut(panel.title, this.wide / 8), { "font-size": 13, class: "text" });
      y = this.legend(svg, panel, y + 18);
      const top = y + 6, bottom = top + PANEL;
      let least = 0, most = panel.limit || 0;
      for (const line of panel.lines) for (const value of line.values) {
        if (value < least) least = value;
        if (value > most) most = value;
      }
      // Avoid an axis that only shows zero.
      const highest = Math.max(most, panel.unit === "percent" ? 1 : panel.unit.startsWith("bytes") ? 1024 : 0);
      const all = ticks(least, highest, panel.unit, 4);
      const low = all[0], high = all[all.length - 1];
      const at = (value) => bottom - (value - low) / (high - low) * PANEL;
      for (const tick of all) {
        shape(svg, "line", { class: "grid", x1: this.left, x2: this.left + this.wide, y1: at(tick), y2: at(tick) });
        this.text(svg, this.left - 6, at(tick) + 4, label(tick, panel.unit), { "text-anchor": "end" });
      }
      if (panel.limit) {
        shape(svg, "line", { class: "limit", "stroke-dasharray": "6 4", x1: this.left, x2: this.left + this.wide, y1: at(panel.limit), y2: at(panel.limit) });
      }
      // The first curve is drawn on top. A curve that hides others is dashed, so that all are
      // visible.
      for (const line of [...panel.lines].reverse()) {
        const seen = DASH / (line.hides + 1);
        shape(svg, "path", {
          class: `curve ${line.colour}`, d: this.path(line, at), "stroke-linejoin": "round",
          "stroke-width": line.suspect ? 2.5 : 1.5, "stroke-opacity": panel.suspects && !line.suspect ? 0.45 : 1,
          ...(line.hides ? { "stroke-dasharray": `${seen} ${DASH - seen}` } : {}),
        });
      }
      panel.at = at;
      this.areas.push({ top, bottom });
      return bottom + 14;
    }

    legend(svg, panel, y) {
      let x = this.left;
      const place = (wide) => {
        if (x > this.left && x + wide > this.left + this.wide) { x = this.left; y += 15; }
        return x;
      };
      for (const line of panel.told) {
        const name = cut(line.name, 40), width = name.length * 6.4 + 34;
        place(width);
        shape(svg, "rect", { class: `swatch ${line.colour}`, x, y: y + 4, width: 13, height: 4 });
        this.text(svg, x + 18, y + 10, name, { class: "text" });
        x += width;
      }
      const grey = panel.grey ? panel.lines.length - panel.suspects : 0, more = panel.lines.length - grey - panel.told.length;
      const words = [more ? `and ${more} more` : "", grey ? `${grey} others in grey` : ""].filter(Boolean).join("; ");
      if (words) this.text(svg, place(150), y + 10, words);
      return y + 12;
    }

    // Returns the path of a curve in the view: all points, or the lowest and highest of each pixel.
    path(line, y) {
      const { times, values } = line;
      const first = Math.max(index(times, this.from) - 1, 0);
      const last = Math.min(index(times, this.to) + 1, times.length);
      const parts = [];
      const add = (at) => {
        const [left, height] = [this.clamped(times[at]).toFixed(1), y(values[at]).toFixed(1)];
        if (parts.length && line.step) parts.push(`V${height}H${left}`);
        else parts.push(`${parts.length ? "L" : "M"}${left} ${height}`);
      };
      if (last - first <= this.wide * 2) {
        for (let at = first; at < last; at += 1) add(at);
      } else {
        let at = first;
        while (at < last) {
          const pixel = Math.floor(this.x(times[at]));
          let low = at, high = at;
          for (; at < last && Math.floor(this.x(times[at])) === pixel; at += 1) {
            if (values[at] < values[low]) low = at;
            if (values[at] > values[high]) high = at;
          }
          add(Math.min(low, high));
          if (low !== high) add(Math.max(low, high));
        }
      }
      return parts.join("") + (parts.length === 1 ? "h2" : "");
    }

    // Points outside the view are drawn at its edge, only to lead the curve there.
    clamped(at) { return Math.min(Math.max(this.x(at), this.left), this.left + this.wide); }

    density(svg, y) {
      const counts = this.data.density, most = Math.max(...counts, 1);
      this.text(svg, this.left, y + 12, cut(`Tasks too short for a bar of their own: up to ${most} at a time`, this.wide / 7), { "font-size": 13, class: "text" });
      const bottom = y + 18 + DENSITY, part = this.length / counts.length;
      let path = `M${this.left} ${bottom}`;
      counts.forEach((count, at) => {
        const from = at * part, to = from + part;
        if (to < this.from || from > this.to) return;
        const height = (bottom - count / most * DENSITY).toFixed(1);
        path += `L${this.clamped(from).toFixed(1)} ${height}H${this.clamped(to).toFixed(1)}`;
      });
      shape(svg, "path", { class: "density", d: path + `V${bottom}Z` });
      this.areas.push({ top: bottom - DENSITY, bottom });
      return bottom + 10;
    }

    bars(svg, y) {
      this.text(svg, this.left, y + 12, "Tasks", { "font-size": 13, class: "text" });
      this.barsTop = y + 20;
      let drawn = 0;
      for (const [start, length, row, state, name] of this.drawn) {
        if (start + length < this.from || start > this.to) continue;
        const from = this.clamped(start), to = Math.max(this.clamped(start + length), from + (state === "failed" ? 2 : 1));
        const top = this.barsTop + row * ROW;
        const faded = this.found && !this.found(name, state) ? " faded" : "", wide = to - from > 4 ? " wide" : "";
        shape(svg, "rect", { class: `bar ${state}${faded}${wide}`, x: from.toFixed(1), y: top, width: (to - from).toFixed(1), height: ROW - 2, rx: 2 });
        const most = Math.floor((to - from - 8) / 6.2);
        if (most >= 4 && !faded) this.text(svg, from + 4, top + 10.5, cut(name, most), { class: `on-bar ${state}`, "font-size": 10 });
        drawn += 1;
      }
      svg.dataset.bars = drawn;
      const bottom = this.barsTop + this.rows * ROW;
      this.areas.push({ top: this.barsTop - 2, bottom });
      return bottom + 8;
    }

    axis(svg, bottom) {
      const step = timeStep((this.to - this.from) / Math.max(this.wide / 130, 2));
      for (let tick = Math.ceil(this.from / step) * step; tick <= this.to; tick += step) {
        const x = this.x(tick);
        for (const area of this.areas) shape(svg, "line", { class: "grid", x1: x, x2: x, y1: area.top, y2: area.bottom });
        const anchor = x > this.left + this.wide - 30 ? "end" : "middle";
        this.text(svg, x, bottom + 15, duration(tick), { "text-anchor": anchor });
      }
    }

    // Returns the areas in which a mark is drawn: its panel, or all areas.
    areasOf(mark) { return mark.panel === null ? this.areas : [this.areas[mark.panel]]; }

    seen() { return this.marked.filter((mark) => mark.end >= this.from && mark.at <= this.to); }

    // Paints the spans of marks. Overlapping spans are painted once.
    washes(svg) {
      const short = this.seen().filter((mark) => !mark.long);
      for (const area of this.areas) {
        const here = short.filter((mark) => this.areasOf(mark).includes(area));
        const spans = here.map((mark) => [this.clamped(mark.at), this.clamped(Math.max(mark.at, mark.end)), mark.rank]);
        for (const [from, to, rank] of stretches(spans.filter(([from, to]) => to - from > 2))) {
          shape(svg, "rect", { class: `mark ${LEVELS[rank]}`, "fill-opacity": 0.1, x: from, y: area.top, width: to - from, height: area.bottom - area.top });
        }
      }
    }

    marks(svg) {
      // The worst marks are drawn on top, and choose the places of their numbers first.
      const order = this.seen().sort((one, other) => other.rank - one.rank || one.number - other.number);
      for (const mark of [...order].reverse()) {
        const from = this.clamped(mark.at), to = this.clamped(Math.max(mark.at, mark.end));
        for (const { top, bottom } of this.areasOf(mark)) {
          const made = mark.long
            ? shape(svg, "rect", { class: `mark ${mark.level}`, x: from, y: top - 3, width: Math.max(to - from, 1), height: 3 })
            : shape(svg, "line", { class: `mark ${mark.level}`, x1: from, x2: from, y1: top, y2: bottom });
          shape(made, "title", {}, mark.text);
        }
      }
      const taken = [], flags = [];
      for (const mark of order) {
        const [area] = this.areasOf(mark), place = area && this.free(this.clamped(mark.at), area, taken);
        if (place) { taken.push(place); flags.push([mark, place]); }
      }
      for (const [mark, { x, y }] of flags.reverse()) {
        shape(svg, "rect", { class: `flag ${mark.level}`, x, y, width: FLAG.wide, height: FLAG.high, rx: 2 });
        shape(svg, "text", { class: "on-flag", x: x + 8, y: y + 10.5, "font-size": 10, "text-anchor": "middle" }, mark.number);
      }
    }

    // Returns the first free place for a number: from the top of its area down, then further right.
    free(from, area, taken) {
      const wide = FLAG.wide + 1, high = FLAG.high + 1;
      const rows = Math.max(Math.floor((area.bottom - area.top) / high), 1);
      for (let column = 0; column < 4; column += 1) {
        for (let row = 0; row < rows; row += 1) {
          const x = Math.min(from + column * wide, this.left + this.wide - FLAG.wide), y = area.top + 2 + row * high;
          if (taken.every((other) => Math.abs(other.x - x) >= wide || Math.abs(other.y - y) >= high)) return { x, y };
        }
      }
      return null;
    }

    // Returns the tasks at a time: with a pointer the one under it, with keys all of them.
    barsAt(at, here) {
      const slack = (this.to - this.from) / this.wide * 2;
      const running = (bar) => at >= bar[0] - slack && at <= bar[0] + bar[1] + slack;
      if (!here) return this.data.bars.filter(running);
      if (this.barsTop === null || here.y < this.barsTop) return [];
      const row = Math.floor((here.y - this.barsTop) / ROW);
      return this.data.bars.filter((bar) => bar[2] === row && running(bar)).slice(0, 1);
    }

    // Returns the lines of text that describe a time.
    lines(at, here) {
      const told = [], tell = (text, kind) => told.push({ text, kind: kind || "" });
      const clock = new Date(this.data.start_ms + at / 1e6);
      tell(isNaN(clock) ? duration(at) : `${duration(at)} · ${clock.toISOString().replace("T", " ").replace("Z", " UTC")}`);
      const slack = (this.to - this.from) / this.wide * 3;
      const isHere = (mark) => at >= mark.at - slack && at <= mark.end + slack;
      const marks = this.marked.filter((mark) => mark !== this.mark && isHere(mark));
      if (this.mark) tell(`${this.mark.number}, ${this.mark.level}: ${this.mark.text}`, this.mark.level);
      const shown = marks.slice(0, here ? 4 : 3);
      for (const mark of shown) tell(`${mark.number}, ${mark.level}: ${mark.text}`, mark.level);
      if (marks.length > shown.length) tell(`and ${marks.length - shown.length} more marks`);
      const bars = this.barsAt(at, here), few = bars.slice(0, 5);
      for (const bar of few) tell(`${bar[4]}: ${bar[3]}, ${duration(bar[1])}, began at ${duration(bar[0])}`);
      if (bars.length > few.length) tell(`and ${bars.length - few.length} more tasks`);
      const several = this.panels.filter((panel) => panel.lines.length).length > 1;
      for (const panel of this.panels) {
        const value = (line) => {
          const value = line.values[nearest(line, at)];
          const exact = panel.unit.startsWith("bytes") && Math.abs(value) >= 1024 ? ` (${value.toLocaleString("en")})` : "";
          return `${line.name}: ${label(value, panel.unit)}${exact}`;
        };
        const lines = panel.told.filter((line) => line.times.length);
        if (lines.length && several) tell(panel.title, "head");
        for (const line of lines) tell(value(line));
        const more = panel.lines.length - panel.told.length;
        if (more) tell(`and ${more} others`);
      }
      return told;
    }

    point(at, here, mark) {
      this.over.replaceChildren();
      this.cursor = at === null ? null : Math.min(Math.max(at, this.from), this.to);
      this.here = here;
      this.mark = (this.cursor !== null && mark) || null;
      this.tip.hidden = this.cursor === null;
      if (this.cursor === null) return;
      const x = this.x(this.cursor);
      if (this.selected) {
        const [one, other] = this.selected;
        shape(this.over, "rect", { class: "selection", x: Math.min(one, other), y: 0, width: Math.abs(one - other), height: this.bottom });
      }
      shape(this.over, "line", { class: "cursor", x1: x, x2: x, y1: 0, y2: this.bottom });
      for (const panel of this.panels) {
        for (const line of panel.told) {
          if (line.times.length === 0) continue;
          const at = nearest(line, this.cursor), value = line.values[at];
          const isBetween = line.step || (line.times[at] !== this.cursor && this.isLevel(line, at));
          const time = isBetween && this.cursor >= line.times[0] ? Math.min(this.cursor, line.times[line.times.length - 1]) : line.times[at];
          if (time < this.from || time > this.to) continue;
          shape(this.over, "circle", { class: `swatch ${line.colour}`, cx: this.x(time), cy: panel.at(value), r: 3 });
        }
      }
      this.tip.replaceChildren(...this.lines(this.cursor, here).map(({ text, kind }) => element("p", { class: kind }, text)));
      const room = this.box.clientWidth - this.tip.offsetWidth;
      const side = x + 14 > room ? x - this.tip.offsetWidth - 14 : x + 14;
      const height = here ? here.y + 12 : 24;
      this.tip.style.transform = `translate(${Math.max(Math.min(side, room), 0)}px, ${Math.max(height, 0)}px)`;
    }

    // Whether the curve is flat at the cursor. The page may omit samples between two equal ones.
    isLevel(line, at) {
      const other = line.times[at] < this.cursor ? at + 1 : at - 1;
      return line.values[other] === line.values[at];
    }

    // Fades the bars that do not match, and returns how many match.
    search(found) {
      this.found = found;
      this.draw();
      return this.data.bars.filter((bar) => !found || found(bar[4], bar[3])).length;
    }
  }

  const charts = [...document.querySelectorAll("figure.chart")].map((figure) =>
    new Chart(figure, JSON.parse(figure.querySelector("script").textContent)));

  // --- Search and filter

  const search = document.getElementById("search"), failed = document.getElementById("only-failed");
  if (search && failed) {
    document.getElementById("tools").hidden = false;
    const count = document.getElementById("found");
    const entries = [...document.querySelectorAll("[data-text]")], many = [...document.querySelectorAll("[data-tasks]")];
    const counted = (number, one, more) => `${number.toLocaleString("en")} ${number === 1 ? one : more}`;
    const apply = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = (name, state) =>
        (!failed.checked || state === "failed") && words.every((word) => name.toLowerCase().includes(word));
      const everything = words.length === 0 && !failed.checked;
      let bars = 0;
      for (const chart of charts) bars += chart.search(everything ? null : found);
      let shown = 0;
      // Go from the innermost entry outwards: an entry with a match inside stays visible, too.
      for (const entry of entries.reverse()) {
        const inside = entry.querySelector("[data-text]:not([hidden])") !== null;
        const is = everything || found(entry.dataset.text, entry.dataset.state);
        entry.hidden = !is && !inside;
        if (is) shown += 1;
      }
      entries.reverse();
      // Not every task has a bar, so count the tasks by their activities.
      const tasks = many.filter((row) => words.every((word) => row.dataset.text.toLowerCase().includes(word)))
        .reduce((sum, row) => sum + Number(failed.checked ? row.dataset.failed : row.dataset.tasks), 0);
      const drawn = tasks ? `${counted(tasks, "task", "tasks")} found, ${bars.toLocaleString("en")} of them with a bar; ` : "";
      count.textContent = everything ? "" : `${drawn}${counted(shown, "line", "lines")} shown`;
    };
    search.addEventListener("input", apply);
    failed.addEventListener("change", apply);
  }
  document.documentElement.dataset.ready = "true";
})();
