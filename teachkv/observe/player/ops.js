// One forward pass, operation by operation: its result as it is, and how far it lies from the twin's.
"use strict";
(function () {
  const { draw, picture, wide } = window.tkv;
  const TOLERANCE = -4, FLOOR = -9; // powers of ten: rounding in float32 stays well below the first
  const power = (x) => (x > 0 ? Math.max(FLOOR, Math.log10(x)) : FLOOR);
  const off = (op) => op.diff !== null && power(op.diff) > TOLERANCE;
  const tell = (x) => (x === 0 ? "0" : x.toExponential(1));

  // One bar per operation; the higher, the farther from the twin.
  function drawAll(holder, ops, at) {
    const wrong = ops.filter(off);
    const label = `Distance from the twin over ${ops.length} operations; ` +
      (wrong.length ? `too far from ${wrong[0].name} on, in ${wrong.length}` : "rounding only");
    const svg = picture(holder, 84, label);
    const span = wide() - 84, step = span / ops.length, y = (p) => 8 + 56 * p / FLOOR;
    draw("rect", { class: "frame", x: 76, y: 4, width: span, height: 60 }, svg);
    ops.forEach((op, index) => {
      if (op.diff === null) return;
      const top = y(Math.min(power(op.diff), 0));
      const box = { x: 76 + index * step + 0.5, y: top, width: Math.max(step - 1, 1), height: Math.max(64 - top, 1) };
      draw("rect", { ...box, class: off(op) ? "bad" : "live" }, svg);
    });
    draw("line", { class: "edge", x1: 76, x2: 76 + span, y1: y(TOLERANCE), y2: y(TOLERANCE) }, svg);
    draw("line", { class: "now", x1: 76 + (at + 0.5) * step, x2: 76 + (at + 0.5) * step, y1: 0, y2: 68 }, svg);
    draw("text", { x: 70, y: 14, "text-anchor": "end" }, svg, "off by 1");
    draw("text", { x: 70, y: y(TOLERANCE) + 4, "text-anchor": "end" }, svg, "1e-4");
    draw("text", { x: 70, y: 66, "text-anchor": "end" }, svg, "1e-9");
    draw("text", { x: 76, y: 80 }, svg, "all operations, first to last");
  }

  // A tensor as a grid, tokens downwards; darker is larger. `depth` maps a value to 0 .. 1.
  function drawGrid(svg, x, width, title, cells, kind, depth) {
    draw("text", { x, y: 12 }, svg, title);
    const w = width / cells[0].length, h = Math.min(18, 90 / cells.length);
    cells.forEach((row, r) => row.forEach((value, c) => {
      const box = { x: x + c * w, y: 18 + r * h, width: Math.max(w - 0.5, 0.5), height: Math.max(h - 0.5, 0.5) };
      draw("rect", { ...box, class: kind(value), "fill-opacity": depth(value).toFixed(2) }, svg);
    }));
    draw("rect", { class: "frame", x, y: 18, width, height: h * cells.length }, svg);
  }

  function drawOne(holder, op) {
    const most = Math.max(...op.cells.flat().map(Math.abs), 1e-30);
    const label = `${op.name}: ${op.cells.length} tokens, largest value ${tell(most)}, ` +
      (op.diff === null ? "not in the twin" : `largest difference from the twin ${tell(op.diff)}`);
    const svg = picture(holder, 24 + Math.min(18, 90 / op.cells.length) * op.cells.length, label);
    const half = (wide() - 24) / 2;
    drawGrid(svg, 0, half, "what came out", op.cells, (v) => (v < 0 ? "new" : "live"), (v) => 0.06 + 0.94 * Math.abs(v) / most);
    if (op.off === null) {
      draw("text", { x: half + 24, y: 12 }, svg, "the twin has no such tensor");
      return;
    }
    const depth = (v) => 0.06 + 0.94 * Math.min(1, Math.max(0, (power(v) - FLOOR) / -FLOOR));
    drawGrid(svg, half + 24, half, "how far from the twin", op.off, (v) => (power(v) > TOLERANCE ? "bad" : "live"), depth);
  }

  window.tkv.views.ops = ({ ops }) => ({
    noun: "operation",
    count: ops.length,
    legend: [["live", "positive, or off by rounding only"], ["new", "negative"], ["bad", "off by more than 1e-4"]],
    head: (at) => `${ops[at].name} (${ops[at].op}, ${ops[at].shape.join(" x ")}), ` +
      (ops[at].diff === null ? "no twin" : `off by ${tell(ops[at].diff)}`),
    show(at, holder) {
      drawAll(holder, ops, at);
      drawOne(holder, ops[at]);
    },
  });
})();
