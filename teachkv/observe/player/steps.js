// The engine, step by step: what was planned, which columns each row holds, what came of it.
"use strict";
(function () {
  const { draw, make, picture, wide } = window.tkv;
  const span = () => wide() - 84; // from the names of the rows to the right edge
  const HIGH = 20, PITCH = 26; // of a row, and from one row to the next

  // One row: dead prefix, live columns, columns written in this step.
  function drawRow(svg, row, y, from, scale) {
    const x = (column) => 76 + (column - from) * scale;
    const first = Math.max(row.lead_pad, from), fresh = row.end - row.new_tokens;
    draw("text", { x: 0, y: y + 15 }, svg, `#${row.id} ${row.kind === "decode" ? "row " + row.row : "prompt"}`);
    if (first > from) draw("rect", { class: "dead", x: x(from), y, width: (first - from) * scale, height: HIGH }, svg);
    if (fresh > first) {
      const kind = row.kind === "decode" ? "live" : "stage";
      draw("rect", { class: kind, x: x(first), y, width: (fresh - first) * scale, height: HIGH }, svg);
    }
    const width = Math.max(row.new_tokens * scale, 2);
    draw("rect", { class: "new", x: x(Math.max(fresh, first)), y, width, height: HIGH }, svg);
    for (let column = from; scale >= 8 && column <= row.end; column++) {
      draw("line", { class: "cell", x1: x(column), x2: x(column), y1: y, y2: y + HIGH }, svg);
    }
    if ((first - from) * scale > 44) {
      draw("text", { x: (x(from) + x(first)) / 2, y: y + 15, "text-anchor": "middle" }, svg, "dead");
    }
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

  // Their numbers: each where there is room, else every second, fifth, tenth ...
  function drawColumns(svg, from, columns, scale, y) {
    const every = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((n) => n * scale >= 30) || 1000;
    draw("text", { x: 0, y }, svg, "column");
    for (let column = Math.ceil(from / every) * every; column < columns; column += every) {
      draw("text", { x: 76 + (column - from + 0.5) * scale, y, "text-anchor": "middle" }, svg, `${column}`);
    }
  }

  function drawRows(holder, record) {
    const [from, columns] = shownColumns(record.rows);
    const scale = span() / (columns - from), height = Math.max(record.rows.length, 1) * PITCH + 18;
    const svg = picture(holder, height, describe(record));
    record.rows.forEach((row, index) => drawRow(svg, row, index * PITCH + 2, from, scale));
    drawColumns(svg, from, columns, scale, height - 6);
    if (!record.rows.length) draw("text", { x: 76, y: 14 }, svg, record.refused || "nothing ran");
  }

  // Running and waiting over all steps, with a line where the player stands.
  function drawTimeline(holder, records, at) {
    const most = Math.max(1, ...records.map((r) => Math.max(r.running, r.waiting)));
    const x = (index) => 76 + span() * (records.length > 1 ? index / (records.length - 1) : 0);
    const y = (value) => 48 - 44 * value / most;
    const label = `Running and waiting over ${records.length} steps, at most ${most}`;
    const svg = picture(holder, 64, label);
    draw("rect", { class: "frame", x: 76, y: 4, width: span(), height: 44 }, svg);
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

  window.tkv.views.steps = (records) => ({
    noun: "step",
    count: records.length,
    legend: [
      ["dead", "dead prefix: nothing lies here"], ["live", "live columns"], ["stage", "columns of a prompt"],
      ["new", "written in this step"],
    ],
    head: (at) => `${records[at].running} running, ${records[at].waiting} waiting, ${records[at].resident} resident`,
    show(at, holder) {
      if (records.length > 2) drawTimeline(holder, records, at);
      drawRows(holder, records[at]);
      say(make("div", holder, { className: "said" }), records[at]);
    },
  });
})();
