// The player: plain JavaScript, no framework; keys: left, right, home, end, space. Its views are in the other files.
"use strict";
(function () {
  const { draw, make, views } = window.tkv;

  function drawLegend(root, entries) {
    const legend = make("div", root, { className: "key" });
    for (const [kind, text] of entries) {
      const entry = make("span", legend);
      const box = draw("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, entry);
      draw("rect", { class: kind, x: 0, y: 0, width: 12, height: 12 }, box);
      entry.append(text);
    }
  }

  // `data` is a list of step records, or an object whose `kind` names the view.
  function player(root, data) {
    const view = Array.isArray(data) ? views.steps(data) : views[data.kind](data);
    root.classList.add("tkv-player");
    root.tabIndex = 0;
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", `Player, ${view.count} of "${view.noun}": arrow keys move, space plays`);
    root.replaceChildren();
    let at = 0, timer = null;
    const bar = make("div", root, { className: "bar" });
    const button = (text, label, act) => {
      const node = make("button", bar, { type: "button", textContent: text, onclick: act });
      node.setAttribute("aria-label", label);
      return node;
    };
    button("|◀", `first ${view.noun}`, () => go(0));
    button("◀", `one ${view.noun} back`, () => go(at - 1));
    const play = button("▶", "play", toggle);
    button("▶|", `one ${view.noun} on`, () => go(at + 1));
    const slider = make("input", bar, { type: "range", min: 0, max: view.count - 1, value: 0 });
    slider.setAttribute("aria-label", view.noun);
    slider.addEventListener("input", () => go(Number(slider.value)));
    const head = make("div", root, { className: "head" });
    head.setAttribute("aria-live", "polite");
    const holder = make("div", root);
    drawLegend(root, view.legend);

    function go(index) {
      at = Math.min(Math.max(index, 0), view.count - 1);
      slider.value = at;
      head.textContent = `${view.noun} ${at + 1} of ${view.count}: ${view.head(at)}`;
      holder.replaceChildren();
      view.show(at, holder);
      if (at === view.count - 1) stop();
      root.dispatchEvent(new CustomEvent("tkv-step", { detail: at }));
    }
    function stop() {
      if (timer !== null) clearInterval(timer);
      timer = null;
      play.textContent = "▶";
    }
    function toggle() {
      if (timer !== null) { stop(); return; }
      if (at === view.count - 1) go(0);
      timer = setInterval(() => go(at + 1), 400);
      play.textContent = "❚❚";
    }
    root.addEventListener("keydown", (event) => {
      if (event.target === slider && event.key.startsWith("Arrow")) return;
      const moves = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1), Home: () => go(0), End: () => go(view.count - 1) };
      if (event.key === " " && event.target.tagName !== "BUTTON") moves[" "] = toggle;
      if (event.key in moves) { moves[event.key](); event.preventDefault(); }
    });
    go(0);
  }

  // Every element with data-tkv-trace names a <script type="application/json"> that holds what is played.
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
