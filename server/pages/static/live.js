// Keeps the page of something that is still going on up to date. Without it the page says the same after a reload.
"use strict";
(() => {
  const EVERY = 1000;
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
      if (response.redirected) return location.reload();
      if (!response.ok) throw new Error(String(response.status));
      fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      pause = EVERY;
    } catch {
      pause = Math.min(pause * 2, SLOWEST);
      return again();
    }
    if (show(fresh)) again();
  }

  // Makes the region what the fresh one says. What the reader opened, where he scrolled and what has the focus stays,
  // since every element that is still there stays the same element.
  function show(fresh) {
    const after = fresh.getElementById("live");
    if (!after) return false;
    if ([...after.querySelectorAll("[data-kept]")].some((kept) => !document.getElementById(kept.id))) {
      location.reload();
      return false;
    }
    const news = after.dataset.news;
    const isNews = region().dataset.news !== news;
    change(region(), after);
    document.title = fresh.title;
    if (isNews) document.getElementById("news").textContent = news;
    return "live" in region().dataset;
  }

  // Children that have an id are matched by it, the others in their order. `data-kept` is what was not sent again.
  function change(before, after) {
    if ("kept" in after.dataset) return;
    changeAttributes(before, after);
    let place = before.firstChild;
    for (const wanted of [...after.childNodes]) {
      const same = counterpart(before, place, wanted);
      if (!same) {
        before.insertBefore(document.adoptNode(wanted), place);
        continue;
      }
      if (same !== place) before.insertBefore(same, place);
      place = same.nextSibling;
      if (same.nodeType === Node.ELEMENT_NODE) change(same, wanted);
      else if (same.data !== wanted.data) same.data = wanted.data;
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  }

  function counterpart(before, place, wanted) {
    if (wanted.id) return [...before.children].find((child) => child.id === wanted.id);
    const fits = place && !place.id && place.nodeName === wanted.nodeName && place.className === wanted.className;
    return fits ? place : undefined;
  }

  function changeAttributes(before, after) {
    for (const { name } of [...before.attributes]) {
      if (!after.hasAttribute(name) && name !== "open") before.removeAttribute(name);
    }
    for (const { name, value } of [...after.attributes]) {
      if (name !== "open" && before.getAttribute(name) !== value) before.setAttribute(name, value);
    }
  }

  again();
})();
