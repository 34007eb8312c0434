// Keys, clicks and drags go to Python by NiceGUI's emitEvent; the page measures its own speed.
(() => {
  const studio = (window.studio = { latencies: [] });
  let pressed = null;
  let sent = 0;
  const root = () => document.querySelector(".studio");
  const typing = (e) => e.target.closest?.("input, select, textarea, .q-slider, .q-field, .q-menu");

  // What is decided is the row that the page shows, not one that is on its way.
  function send(name, args) {
    pressed = performance.now();
    emitEvent(name, { ...args, row: Number(document.getElementById("detail")?.dataset.row ?? -1) });
  }

  // A view says which keys it takes.
  document.addEventListener("keydown", (e) => {
    const slider = e.target.id === "degree" ? e.target : null;
    if (slider && e.key === "Enter") return setDegree(slider);
    if (e.key === "Escape") return document.activeElement.blur();
    if (slider && /^[krxu]$/.test(e.key)) slider.blur();
    else if (typing(e)) return;
    let key = e.key.length === 1 ? e.key.toLowerCase() : e.key;
    const control = e.ctrlKey || e.metaKey;
    if (control && key === "y") key = "redo";
    else if (control ? key === "z" : key === "u") key = e.shiftKey ? "redo" : "undo";
    else if (control || e.altKey) return;
    if (!new RegExp(`^(${root()?.dataset.keys || "(?!)"})$`).test(key)) return;
    e.preventDefault();
    if (key === "d") return document.getElementById("degree")?.focus();
    if (!e.repeat || /^Arrow/.test(key)) send("studio_key", { key });
  });
  function setDegree(slider) {
    send("studio_key", { key: "degree", value: Number(slider.value) });
    slider.blur();
  }
  document.addEventListener("input", (e) => {
    if (e.target.id === "degree")
      document.getElementById("degree-value").textContent = Number(e.target.value).toFixed(2);
  });
  document.addEventListener("pointerup", (e) => {
    if (e.target.id === "degree") setDegree(e.target);
  });
  document.addEventListener("click", (e) => {
    const entry = e.target.closest("[data-open]");
    if (entry) return send("studio_open", { open: Number(entry.dataset.open) });
    const button = e.target.closest("[data-key]");
    if (!button) return;
    send("studio_key", { key: button.dataset.key });
    button.blur();
  });

  // From the key to the page as it is drawn.
  new MutationObserver(() => {
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

  // Maps: press on a place; dots can be dragged.
  let drag = null;
  const place = (e, map) => {
    const box = map.getBoundingClientRect();
    return [(e.clientX - box.left) / box.width, (e.clientY - box.top) / box.height];
  };
  document.addEventListener("pointerdown", (e) => {
    const map = e.target.closest(".map");
    if (!map || e.button > 0) return;
    const dot = e.target.closest(".dot");
    const [x, y] = place(e, map);
    if (map.id === "board") e.preventDefault();
    if (!dot) return send("studio_point", { action: "press", x, y });
    drag = { map, id: Number(dot.dataset.id) };
    emitEvent("studio_point", { action: "choose", id: drag.id });
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
    emitEvent("studio_point", { action: "move", id: drag.id, x, y });
  });
  const drop = () => {
    if (drag?.at) {
      const [x, y] = drag.at;
      emitEvent("studio_point", { action: "drop", id: drag.id, x, y });
    }
    drag = null;
  };
  document.addEventListener("pointerup", drop);
  document.addEventListener("pointercancel", drop);
})();
