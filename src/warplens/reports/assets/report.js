"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const places = [...document.querySelectorAll(".plot")];
  const root = document.documentElement;
  const config = { responsive: true, displayModeBar: false };

  const PAPER_PIXELS = 680; // A4 and letter between their margins
  let paper = false;

  // Colours of text and grid follow the page's; what data is coloured with stays.
  const themed = (layout) => {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(name).trim();
    const made = { ...layout, font: { ...layout.font, color: colour("--text") } };
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(key)) {
        made[key] = { gridcolor: colour("--grid"), zerolinecolor: colour("--muted"), linecolor: colour("--line"), ...layout[key] };
      }
    }
    if (paper) {
      made.width = PAPER_PIXELS;
    } else if (root.clientWidth < 640) {
      made.font = { ...made.font, size: 11 };
      made.margin = { ...layout.margin, l: 30, r: 8 };
      if (layout.legend.orientation === "v") { made.showlegend = false; } // the table has the names
      for (const [key, value] of Object.entries((layout.meta && layout.meta.narrow) || {})) {
        made[key] = typeof value === "object" ? { ...made[key], ...value } : value;
      }
    }
    return made;
  };
  const draw = (place) => {
    const figure = figures[Number(place.dataset.figure)];
    const layout = themed(figure.layout);
    place.style.height = `${layout.height}px`;
    return Plotly.react(place, figure.data, layout, config);
  };
  // What is folded has no width yet: it is drawn when it is opened.
  const visible = (place) => place.clientWidth > 0;
  const drawAll = () => places.filter(visible).forEach(draw);
  for (const fold of document.querySelectorAll("details")) {
    fold.addEventListener("toggle", () => { if (fold.open) { fold.querySelectorAll(".plot").forEach((place) => { if (visible(place)) { draw(place); } }); } });
  }

  // One figure at a time, so that the page can be read while others are drawn.
  const waiting = places.filter(visible);
  const next = () => {
    const place = waiting.shift();
    if (!place) { root.dataset.ready = "true"; return; }
    draw(place);
    setTimeout(next, 0);
  };
  next();

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const remember = (theme) => { try { localStorage.setItem("warplens-theme", theme); } catch { /* a page from disk may have none */ } };
  try { const kept = localStorage.getItem("warplens-theme"); if (kept) { root.dataset.theme = kept; } } catch { /* as above */ }
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    drawAll();
  });
  dark.addEventListener("change", drawAll);

  // Paper is white and narrow, whatever the screen is.
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme; paper = true; root.dataset.theme = "light"; drawAll(); });
  addEventListener("afterprint", () => {
    paper = false;
    if (before) { root.dataset.theme = before; } else { delete root.dataset.theme; }
    drawAll();
  });
})();
