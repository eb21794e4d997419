// The step player: replays the records of a trace. Plain JavaScript, no framework; keys: left, right, home, end, space.
"use strict";
(function () {
  const SVG = "http://www.w3.org/2000/svg";

  function draw(tag, attributes, parent, text) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  }

  function make(tag, parent, properties) {
    const node = Object.assign(document.createElement(tag), properties || {});
    parent.append(node);
    return node;
  }

  // One row: dead prefix, live columns, columns written in this step.
  function drawRow(svg, row, y, from, scale) {
    const x = (column) => 76 + (column - from) * scale;
    const first = Math.max(row.lead_pad, from), fresh = row.end - row.new_tokens;
    draw("text", { x: 0, y: y + 11 }, svg, `#${row.id} ${row.kind === "decode" ? "row " + row.row : "prompt"}`);
    if (first > from) draw("rect", { class: "dead", x: x(from), y, width: (first - from) * scale, height: 14 }, svg);
    if (fresh > first) {
      const kind = row.kind === "decode" ? "live" : "stage";
      draw("rect", { class: kind, x: x(first), y, width: (fresh - first) * scale, height: 14 }, svg);
    }
    const width = Math.max(row.new_tokens * scale, 2);
    draw("rect", { class: "new", x: x(Math.max(fresh, first)), y, width, height: 14 }, svg);
  }

  function describe(record) {
    const rows = record.rows.map((row) =>
      `sequence ${row.id} ${row.kind}: live columns ${Math.max(row.lead_pad, 0)} to ${row.end - 1}` +
      (row.lead_pad > 0 ? `, dead prefix of ${row.lead_pad}` : "") + `, ${row.new_tokens} new`);
    return `Step ${record.step + 1}: ${record.running} running, ${record.waiting} waiting. ` + rows.join("; ");
  }

  // Columns that no row of the step uses are left out on the left: after a realign there may be hundreds.
  function shownColumns(rows) {
    const last = Math.max(16, ...rows.map((row) => row.end));
    const first = Math.max(0, Math.min(...rows.map((row) => row.lead_pad), last));
    const margin = Math.max(2, Math.ceil((last - first) * 0.05));
    return [rows.length ? Math.max(0, first - margin) : 0, last];
  }

  function drawRows(holder, record) {
    const [from, columns] = shownColumns(record.rows);
    const scale = 640 / (columns - from), height = Math.max(record.rows.length, 1) * 18 + 22;
    const svg = draw("svg", { viewBox: `0 0 724 ${height}`, role: "img", "aria-label": describe(record) }, holder);
    record.rows.forEach((row, index) => drawRow(svg, row, index * 18 + 2, from, scale));
    const bottom = height - 8;
    draw("text", { x: 76, y: bottom }, svg, `column ${from}`);
    draw("text", { x: 716, y: bottom, "text-anchor": "end" }, svg, `column ${columns - 1}`);
    if (!record.rows.length) draw("text", { x: 76, y: 14 }, svg, record.refused || "nothing ran");
  }

  // Running and waiting over all steps, with a line where the player stands.
  function drawTimeline(holder, records, at) {
    const most = Math.max(1, ...records.map((r) => Math.max(r.running, r.waiting)));
    const x = (index) => 76 + 640 * (records.length > 1 ? index / (records.length - 1) : 0);
    const y = (value) => 48 - 44 * value / most;
    const label = `Running and waiting over ${records.length} steps, at most ${most}`;
    const svg = draw("svg", { viewBox: "0 0 724 64", role: "img", "aria-label": label }, holder);
    draw("rect", { class: "frame", x: 76, y: 4, width: 640, height: 44 }, svg);
    for (const [name, kind] of [["running", "run"], ["waiting", "wait"]]) {
      const points = records.map((r, index) => `${x(index).toFixed(1)},${y(r[name]).toFixed(1)}`).join(" ");
      draw("polyline", { class: kind, points }, svg);
    }
    draw("line", { class: "now", x1: x(at), x2: x(at), y1: 2, y2: 50 }, svg);
    draw("text", { x: 0, y: 14 }, svg, `${most}`);
    draw("text", { x: 76, y: 61 }, svg, "running (blue) and waiting (orange) per step");
  }

  function say(holder, record) {
    const line = (label, text) => {
      if (!text) return;
      const part = make("div", holder);
      make("b", part, { textContent: label + " " });
      make("code", part, { textContent: text });
    };
    const plan = record.plan;
    const prompts = (plan.prefill || []).map((c) => `${c.id}[${c.start}:${c.start + c.count}]`).join(" ");
    line("plan", `decode ${(plan.decode || []).join(" ") || "-"}; prefill ${prompts || "-"} (${plan.reason || ""})`);
    line("drawn", record.tokens.map((t) => `#${t.id}:${t.token}${t.finish ? " " + t.finish : ""}`).join("  "));
    line("events", record.events.join("; "));
    line("refused", record.refused);
  }

  function player(root, records) {
    root.classList.add("tkv-player");
    root.tabIndex = 0;
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", "Step player: arrow keys move, space plays");
    root.replaceChildren();
    let at = 0, timer = null;
    const bar = make("div", root, { className: "bar" });
    const button = (text, label, act) => {
      const node = make("button", bar, { type: "button", textContent: text, onclick: act });
      node.setAttribute("aria-label", label);
      return node;
    };
    button("|◀", "first step", () => go(0));
    button("◀", "one step back", () => go(at - 1));
    const play = button("▶", "play", toggle);
    button("▶|", "one step on", () => go(at + 1));
    const slider = make("input", bar, { type: "range", min: 0, max: records.length - 1, value: 0 });
    slider.setAttribute("aria-label", "step");
    slider.addEventListener("input", () => go(Number(slider.value)));
    const head = make("div", root);
    head.setAttribute("aria-live", "polite");
    const timeline = make("div", root), rows = make("div", root);
    const key = "grey: dead prefix; blue: live decode columns; green: prompt columns; orange: written in this step";
    make("div", root, { className: "key", textContent: key });
    const said = make("div", root, { className: "said" });

    function go(index) {
      at = Math.min(Math.max(index, 0), records.length - 1);
      const record = records[at];
      slider.value = at;
      head.textContent = `step ${at + 1} of ${records.length}: ${record.running} running, ` +
        `${record.waiting} waiting, ${record.resident} resident`;
      for (const holder of [timeline, rows, said]) holder.replaceChildren();
      drawTimeline(timeline, records, at);
      drawRows(rows, record);
      say(said, record);
      if (at === records.length - 1) stop();
      root.dispatchEvent(new CustomEvent("tkv-step", { detail: at }));
    }
    function stop() {
      if (timer !== null) clearInterval(timer);
      timer = null;
      play.textContent = "▶";
    }
    function toggle() {
      if (timer !== null) { stop(); return; }
      if (at === records.length - 1) go(0);
      timer = setInterval(() => go(at + 1), 400);
      play.textContent = "❚❚";
    }
    root.addEventListener("keydown", (event) => {
      if (event.target === slider && event.key.startsWith("Arrow")) return;
      const moves = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1), Home: () => go(0), End: () => go(records.length - 1) };
      if (event.key === " " && event.target.tagName !== "BUTTON") moves[" "] = toggle;
      if (event.key in moves) { moves[event.key](); event.preventDefault(); }
    });
    go(0);
  }

  // Every element with data-tkv-trace names a <script type="application/json"> that holds the records.
  function start() {
    for (const root of document.querySelectorAll("[data-tkv-trace]:not(.tkv-player)")) {
      const source = document.getElementById(root.dataset.tkvTrace);
      if (source) player(root, JSON.parse(source.textContent));
    }
  }
  window.tkvPlayer = player;
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
