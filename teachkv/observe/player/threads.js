// One kernel call, thread by thread: what this thread reads and writes before the next one has its turn.
"use strict";
(function () {
  const { draw, make, picture, ranges, wide } = window.tkv;
  const span = () => wide() - 124; // from the names of the arrays to the right edge

  // [R, G, C, D] is one grid per (r, g), columns to the right, and so is a copy of one row of it, [G, C, D], where no
  // queries come in. Anything else is its last axis, line by line.
  function gridsOf(array, arrays) {
    const like = (cache) => cache.shape.length === 4 && cache.shape[1] === array.shape[0] && cache.shape[3] === array.shape[2];
    const copied = array.shape.length === 3 && arrays.some(like) && arrays.every((other) => other.name !== "q");
    const shape = copied ? [1, ...array.shape] : array.shape;
    const last = shape[shape.length - 1], all = shape.reduce((a, b) => a * b, 1);
    if (shape.length !== 4) {
      return [{ title: array.name, row: null, wide: last, high: all / last, first: 0, cell: (i) => [i % last, Math.floor(i / last)] }];
    }
    const [rows, groups, columns, dims] = shape;
    return Array.from({ length: rows * groups }, (_, n) => ({
      title: `${array.name}[${[...(copied ? [] : [Math.floor(n / groups)]), ...(groups > 1 || copied ? [n % groups] : [])]}]`,
      row: Math.floor(n / groups), wide: columns, high: dims, first: n * columns * dims,
      cell: (i) => [Math.floor(i / dims), i % dims],
    }));
  }

  function marks(grid, touches, number) {
    const found = new Map(); // cell -> written
    for (const [array, write, offset, length] of touches) {
      if (array !== number) continue;
      for (let i = Math.max(offset - grid.first, 0); i < Math.min(offset + length - grid.first, grid.wide * grid.high); i++) {
        found.set(i, Boolean(write) || found.get(i) || false);
      }
    }
    return found;
  }

  // Columns of a cache are numbered; scratch of a few cells is not.
  const numbered = (grid) => grid.row !== null && grid.wide >= 8;

  function drawGrid(svg, grid, y, live, before, now) {
    const w = Math.min(14, span() / grid.wide), h = Math.max(3, Math.min(10, 80 / grid.high));
    const box = (x, yy, width, height, kind, more) =>
      draw("rect", { class: kind, x: 110 + x * w, y: y + yy * h, width: width * w, height: height * h, ...more }, svg);
    draw("text", { x: 104, y: y + Math.min(grid.high * h, 10), "text-anchor": "end" }, svg, grid.title);
    if (live) {
      box(0, 0, live.first, grid.high, "dead");
      box(live.stop, 0, grid.wide - live.stop, grid.high, "dead");
    }
    for (const i of before.keys()) box(...grid.cell(i), 1, 1, before.get(i) ? "new" : "live", { "fill-opacity": 0.3 });
    for (const i of now.keys()) box(...grid.cell(i), 1, 1, now.get(i) ? "new" : "live");
    box(0, 0, grid.wide, grid.high, "frame");
    if (!numbered(grid)) return grid.high * h + 8;
    const below = { y: y + grid.high * h + 12 };
    draw("text", { x: 110, ...below }, svg, "column 0");
    draw("text", { x: 110 + grid.wide * w, ...below, "text-anchor": "end" }, svg, `${grid.wide - 1}`);
    return grid.high * h + 22;
  }

  // A box per thread of the block; those that had their turn are filled.
  function drawThreads(holder, frame, threads, done) {
    const across = Math.min(threads, 64), size = Math.min(14, span() / across), down = Math.ceil(threads / across);
    const high = down > 1 ? 6 : size;
    const svg = picture(holder, down * (high + 1) + 8, `thread ${frame.thread} of ${threads} in block ${frame.block}`);
    draw("text", { x: 104, y: 11, "text-anchor": "end" }, svg, "threads");
    for (let t = 0; t < threads; t++) {
      const kind = t === frame.thread ? "bad" : done.has(t) ? "live" : "frame";
      const place = { x: 110 + (t % across) * size, y: 2 + Math.floor(t / across) * (high + 1), width: size - 1, height: high };
      draw("rect", { class: kind, ...place, ...(kind === "live" ? { "fill-opacity": 0.3 } : {}) }, svg);
    }
  }

  function sentence(launch, frame) {
    const said = [];
    launch.arrays.forEach((array, number) => {
      for (const write of [0, 1]) {
        for (const grid of gridsOf(array, launch.arrays)) {
          const touches = frame.touches.filter((t) => t[0] === number && Boolean(t[1]) === Boolean(write));
          const cells = [...marks(grid, touches, number).keys()].map((i) => grid.cell(i)[0]);
          if (cells.length) said.push(`${write ? "writes" : "reads"} ${grid.title} at ${grid.row === null ? "" : "column "}${ranges(cells)}`);
        }
      }
    });
    return said.join("; ");
  }

  // What is shown for a frame: all that this block touched so far, up to and with this turn.
  function show(data, at, holder) {
    const frame = data.frames[at], launch = data.launches[frame.launch];
    const mine = data.frames.filter((f) => f.launch === frame.launch && f.block === frame.block);
    const past = mine.slice(0, mine.indexOf(frame)), touched = (number, list) => list.some((f) => f.touches.some((t) => t[0] === number));
    drawThreads(holder, frame, launch.block[0], new Set(past.map((f) => f.thread)));
    const grids = [];
    launch.arrays.forEach((array, number) => {
      if (touched(number, mine)) for (const grid of gridsOf(array, launch.arrays)) grids.push([grid, number]);
    });
    const all = (list) => list.flatMap((f) => f.touches);
    const shown = grids.filter(([grid, number]) => marks(grid, all(mine), number).size);
    const height = shown.reduce((sum, [grid]) => sum + grid.high * Math.max(3, Math.min(10, 80 / grid.high)) + (numbered(grid) ? 22 : 8), 4);
    const svg = picture(holder, height, `block ${frame.block}, thread ${frame.thread} ${sentence(launch, frame)}`);
    let y = 2;
    for (const [grid, number] of shown) {
      const live = grid.row === null || !grid.title.includes("cache") ? null : data.live.find((run) => run.row === grid.row);
      y += drawGrid(svg, grid, y, live, marks(grid, all(past), number), marks(grid, frame.touches, number));
    }
    make("div", holder, { className: "said", textContent: `thread ${frame.thread} ${sentence(launch, frame)}` });
  }

  window.tkv.views.threads = (data) => ({
    noun: "turn",
    count: data.frames.length,
    legend: [
      ["dead", "not to be read"], ["live", "read now; pale: read before"], ["new", "written now; pale: written before"],
      ["bad", "the thread whose turn it is"],
    ],
    head: (at) => {
      const frame = data.frames[at], launch = data.launches[frame.launch];
      return `${launch.kernel}, block ${frame.block}, thread ${frame.thread}`;
    },
    show: (at, holder) => show(data, at, holder),
  });
})();
