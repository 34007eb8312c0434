// Keys, clicks and drags go to Python by NiceGUI's emitEvent; the page measures its own speed.
(() => {
  const studio = (window.studio = { latencies: [] });
  let pressed = null;
  let sent = 0;
  let focused = null;
  const view = () => document.querySelector(".studio")?.dataset.view;
  const typing = (e) => /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);

  document.addEventListener("keydown", (e) => {
    if (view() !== "doubts") return;
    if (e.target.id === "degree") {
      if (e.key === "Enter") setDegree(e.target);
      else if (e.key === "Escape") e.target.blur();
      else if (!/^[krxu]$/.test(e.key)) return;
      else e.target.blur();
      if (e.key === "Enter" || e.key === "Escape") return;
    } else if (typing(e)) return;
    const control = e.ctrlKey || e.metaKey;
    let key = e.key.length === 1 ? e.key.toLowerCase() : e.key;
    if (control) {
      if (key === "z") key = e.shiftKey ? "redo" : "undo";
      else if (key === "y") key = "redo";
      else return;
    } else if (e.altKey) return;
    else if (key === "u") key = e.shiftKey ? "redo" : "undo";
    if (key === "d") {
      document.getElementById("degree")?.focus();
      e.preventDefault();
      return;
    }
    const moves = /^Arrow(Left|Right|Up|Down)$/.test(key);
    if (!moves && (e.repeat || !/^([krx0-9]|undo|redo)$/.test(key))) return;
    e.preventDefault();
    send("studio_key", { key });
  });

  // What is decided is the row that the page shows, not one that is on its way.
  function send(name, args) {
    pressed = performance.now();
    emitEvent(name, { ...args, row: Number(document.getElementById("detail")?.dataset.row ?? -1) });
  }
  function setDegree(slider) {
    send("studio_key", { key: "degree", value: Number(slider.value) });
    slider.blur();
  }
  document.addEventListener("input", (e) => {
    const shown = e.target.dataset?.shows && document.getElementById(e.target.dataset.shows);
    if (!shown) return;
    const [base, value] = [Number(e.target.dataset.base), Number(e.target.value)];
    shown.textContent = base ? (base ** value).toPrecision(3) : value.toFixed(2);
  });
  // Sliders of settings act while they move, too; they must not be drawn again meanwhile.
  for (const kind of ["input", "change"])
    document.addEventListener(kind, (e) => {
      const name = e.target.dataset?.choice;
      const moving = kind === "input";
      if (!name || (moving && e.target.type !== "range")) return;
      if (moving && performance.now() - sent < 45) return;
      sent = performance.now();
      focused = name;
      emitEvent("studio_choose", { name, value: e.target.value, moving });
    });
  document.addEventListener("pointerup", (e) => {
    if (e.target.id === "degree") setDegree(e.target);
  });
  document.addEventListener("click", (e) => {
    const map = e.target.closest(".overview .map, .doubts .map");
    if (map) {
      const [x, y] = place(e, map);
      pressed = performance.now();
      return emitEvent("studio_map", { x, y });
    }
    const entry = e.target.closest("[data-open]");
    if (entry) return send("studio_open", { open: Number(entry.dataset.open) });
    const choice = e.target.closest("button[data-choice]");
    if (choice) return emitEvent("studio_choose", { name: choice.dataset.choice, value: choice.value });
    const button = e.target.closest("[data-key]");
    if (button) {
      send("studio_key", { key: button.dataset.key });
      button.blur();
    }
  });

  // What was drawn again gets the focus back, so that the next key reaches it.
  document.addEventListener("pointerdown", () => (focused = null));
  document.addEventListener("keydown", (e) => {
    if (e.key === "Tab") focused = null;
  });
  // From the key to the page as it is drawn.
  new MutationObserver(() => {
    if (focused && document.activeElement === document.body)
      document.querySelector(`[data-choice="${focused}"]`)?.focus();
    const step = document.getElementById("detail")?.dataset.step;
    if (step === studio.step) return;
    studio.step = step;
    if (pressed === null) return;
    const since = pressed;
    pressed = null;
    requestAnimationFrame(() => setTimeout(() => {
      studio.latencies.push(performance.now() - since);
      const shown = document.getElementById("speed");
      if (shown) shown.textContent = `last update ${studio.latencies.at(-1).toFixed(0)} ms`;
    }));
  }).observe(document, { subtree: true, childList: true, attributes: true });

  // Draw: press on the plane to add a point, on a point to drag it.
  let drag = null;
  const place = (e, map) => {
    const box = map.getBoundingClientRect();
    return [(e.clientX - box.left) / box.width, (e.clientY - box.top) / box.height];
  };
  document.addEventListener("pointerdown", (e) => {
    const map = e.target.closest(".draw .map");
    if (!map || e.button > 0) return;
    e.preventDefault();
    const dot = e.target.closest(".dot");
    const [x, y] = place(e, map);
    if (!dot) return emitEvent("studio_draw", { action: "add", x, y });
    drag = { map, id: Number(dot.dataset.id) };
    emitEvent("studio_draw", { action: "choose", id: drag.id });
  });
  document.addEventListener("pointermove", (e) => {
    if (!drag) return;
    const [x, y] = place(e, drag.map).map((v) => Math.min(1, Math.max(0, v)));
    drag.at = [x, y];
    const dot = drag.map.querySelector(`.dot[data-id="${drag.id}"]`);
    const box = drag.map.querySelector("svg").viewBox.baseVal;
    dot?.setAttribute("transform", `translate(${x * box.width} ${y * box.height})`);
    if (performance.now() - sent < 45) return;
    sent = performance.now();
    emitEvent("studio_draw", { action: "move", id: drag.id, x, y });
  });
  const drop = () => {
    if (drag?.at) emitEvent("studio_draw", { action: "drop", id: drag.id, x: drag.at[0], y: drag.at[1] });
    drag = null;
  };
  document.addEventListener("pointerup", drop);
  document.addEventListener("pointercancel", drop);
  document.addEventListener("keydown", (e) => {
    if (view() !== "draw" || typing(e)) return;
    if (e.key === "Delete" || e.key === "Backspace") emitEvent("studio_draw", { action: "remove" });
    else if (/^Arrow/.test(e.key)) {
      e.preventDefault();
      emitEvent("studio_draw", { action: "nudge", key: e.key });
    } else if (/^[123]$/.test(e.key)) emitEvent("studio_draw", { action: "class", k: Number(e.key) - 1 });
  });
})();
