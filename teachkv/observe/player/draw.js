// What all views draw with. The views register themselves in tkv.views; player.js gives them buttons and keys.
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

  // How many units a picture is wide: fewer on a phone, so that its text stays legible.
  const wide = () => (window.innerWidth < 600 ? 390 : 724);

  // A picture of its own height, always as wide as the others; `label` is its text alternative.
  function picture(holder, height, label) {
    return draw("svg", { viewBox: `0 0 ${wide()} ${height}`, role: "img", "aria-label": label }, holder);
  }

  // "3, 5..9" of whole numbers.
  function ranges(numbers) {
    const runs = [];
    for (const n of [...new Set(numbers)].sort((a, b) => a - b)) {
      if (runs.length && n === runs[runs.length - 1][1] + 1) runs[runs.length - 1][1] = n;
      else runs.push([n, n]);
    }
    return runs.map(([a, b]) => (a === b ? `${a}` : `${a}..${b}`)).join(", ");
  }

  window.tkv = window.tkv || { views: {} };
  Object.assign(window.tkv, { draw, make, picture, ranges, wide });
})();
