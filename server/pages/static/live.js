// Keeps the page of something that is still going on up to date. Without it the page says the same after a reload.
"use strict";
(() => {
  const EVERY = 2000;
  const SLOWEST = 30000;
  let pause = EVERY;

  const region = () => document.getElementById("live");
  const again = () => setTimeout(refresh, pause);
  const isSelecting = () => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && region().contains(selection.anchorNode);
  };

  async function refresh() {
    if (document.hidden || isSelecting()) return again();
    let fresh;
    try {
      const response = await fetch(region().dataset.live, { cache: "no-store" });
      if (response.redirected) return location.assign(region().dataset.live);
      if (!response.ok) throw new Error(String(response.status));
      fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      pause = EVERY;
    } catch {
      pause = Math.min(pause * 2, SLOWEST);
      return again();
    }
    if (show(fresh)) again();
  }

  // Puts the fresh region in place and keeps what the reader has opened and where the focus is.
  function show(fresh) {
    const before = region();
    const after = fresh.getElementById("live");
    if (!after) return false;
    if (before.outerHTML !== after.outerHTML) {
      for (const details of before.querySelectorAll("details[id]")) {
        const same = after.querySelector(`#${CSS.escape(details.id)}`);
        if (same) same.open = details.open;
      }
      const focused = before.contains(document.activeElement) ? place(document.activeElement) : null;
      before.replaceWith(document.adoptNode(after));
      if (focused) region().querySelector(focused)?.focus({ preventScroll: true });
      document.title = fresh.title;
    }
    if (before.dataset.news !== after.dataset.news) {
      document.getElementById("news").textContent = after.dataset.news;
    }
    return "live" in region().dataset;
  }

  function place(element) {
    const holder = element.closest("details[id]");
    if (holder) return `#${CSS.escape(holder.id)} > ${element.localName}`;
    const form = element.closest("form[action]");
    if (form) return `form[action="${CSS.escape(form.getAttribute("action"))}"] ${element.localName}`;
    return element.id ? `#${CSS.escape(element.id)}` : null;
  }

  again();
})();
