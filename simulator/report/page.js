"use strict";
// Draws the charts of the page's data; colours that begin with @ are those of the theme.
(() => {
  const root = document.documentElement;
  const { charts, groups } = JSON.parse(document.getElementById("data").textContent);
  const hidden = new Set(groups.filter((group) => !group.shown).map((group) => group.number));
  const HEIGHT = 400, PRINT_WIDTH = 680, PRINT_HEIGHT = 0.72;
  const COLOUR_KEYS = new Set(["color", "fillcolor", "bgcolor", "bordercolor", "gridcolor"]);
  const POINT_KEYS = ["x", "y", "text", "customdata"];
  const narrow = () => window.innerWidth < 600;
  const coarse = matchMedia("(pointer: coarse)").matches;
  let printing = false;

  function colour(name) {
    const [token, alpha] = name.slice(1).split("/");
    const hex = getComputedStyle(root).getPropertyValue("--" + token).trim();
    if (!alpha) return hex;
    const part = (at) => parseInt(hex.slice(at, at + 2), 16);
    return `rgba(${part(1)},${part(3)},${part(5)},${alpha})`;
  }

  function paint(node) {
    const painted = (value) => (typeof value === "string" && value[0] === "@" ? colour(value) : value);
    for (const [key, value] of Object.entries(node)) {
      if (COLOUR_KEYS.has(key)) node[key] = Array.isArray(value) ? value.map(painted) : painted(value);
      else if (value && typeof value === "object" && !Array.isArray(value)) paint(value);
      else if (key === "shapes" || key === "annotations") value.forEach(paint);
    }
    return node;
  }

  function withoutHidden(trace) {
    const points = trace.meta && trace.meta.points;
    if (!points) return trace;
    const keep = (values) => values.filter((_, i) => !hidden.has(points[i]));
    for (const key of POINT_KEYS) if (Array.isArray(trace[key])) trace[key] = keep(trace[key]);
    for (const key of ["array", "arrayminus"]) if (trace.error_x) trace.error_x[key] = keep(trace.error_x[key]);
    if (trace.marker && Array.isArray(trace.marker.color)) trace.marker.color = keep(trace.marker.color);
    return trace;
  }

  function baseLayout() {
    const line = { gridcolor: "@grid", zerolinecolor: colour("@grid"), linecolor: colour("@grid"), automargin: true };
    return {
      autosize: !printing, width: printing ? PRINT_WIDTH : undefined,
      margin: { l: narrow() ? 44 : 60, r: 18, t: printing ? 24 : 36, b: 46 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow() ? 11 : 12.5, color: "@ink" },
      hoverlabel: { bgcolor: "@card", bordercolor: "@grid", font: { color: "@ink" }, namelength: 28 },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("@soft"), activecolor: colour("@ink") },
      dragmode: coarse ? false : "zoom", xaxis: { ...line }, yaxis: { ...line },
    };
  }

  function merge(base, over) {
    for (const [key, value] of Object.entries(over)) {
      const deep = value && typeof value === "object" && !Array.isArray(value) && base[key];
      base[key] = deep ? merge(base[key], value) : value;
    }
    return base;
  }

  // By default plotly.js has a button that sends a chart to its maker's server: not from here.
  const CONFIG = {
    displaylogo: false, responsive: true, displayModeBar: coarse ? true : "hover",
    showSendToCloud: false, plotlyServerURL: "",
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    toImageButtonOptions: { format: "svg" },
  };

  function draw(chart) {
    const view = structuredClone(chart.views[chart.chosen.join("|")]);
    const data = view.data
      .filter((trace) => !(trace.meta && hidden.has(trace.meta.group)))
      .map((trace) => paint(withoutHidden(trace)));
    const layout = paint(merge(baseLayout(), view.layout));
    layout.height = Math.round((layout.height || HEIGHT) * (printing ? PRINT_HEIGHT : 1));
    if (chart.log) {
      layout[chart.logAxis].type = "log";
      delete layout[chart.logAxis].rangemode;
      delete layout[chart.logAxis].dtick;
    }
    return Plotly.react("chart-" + chart.id, data, layout, CONFIG);
  }

  // A chart is drawn when it comes near the window, all of them for print.
  const redraw = () => charts.filter((chart) => chart.near || printing).forEach(draw);
  const watch = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries)
      if (isIntersecting) {
        watch.unobserve(target);
        const chart = byId[target.id.slice("chart-".length)];
        chart.near = true;
        draw(chart);
      }
  }, { rootMargin: "500px" });

  function choose(theme, keep) {
    root.dataset.theme = theme;
    redraw();
    if (keep) try { localStorage.setItem("meshfl-theme", theme); } catch { /* a page of a file may have no storage */ }
  }

  function setPrinting(now) {
    if (printing === now) return;
    printing = now;
    for (const table of document.querySelectorAll("details:has(table)")) {
      if (now) table.wasOpen = table.open;
      table.open = now || table.wasOpen;
    }
    choose(now ? "light" : wanted, false);
  }

  const byId = Object.fromEntries(charts.map((chart) => [chart.id, chart]));
  for (const chart of charts) {
    chart.chosen = chart.controls.map((keys) => keys[0]);
    const place = document.getElementById("chart-" + chart.id);
    place.style.minHeight = (Object.values(chart.views)[0].layout.height || HEIGHT) + "px";
    watch.observe(place);
  }

  document.addEventListener("change", ({ target }) => {
    const { chart, control, log } = target.dataset;
    if (log) byId[log].log = target.checked;
    else if (chart) byId[chart].chosen[control] = target.value;
    else return;
    draw(byId[log || chart]);
  });
  for (const chip of document.querySelectorAll(".chip"))
    chip.addEventListener("click", () => {
      const group = Number(chip.dataset.group);
      if (!hidden.delete(group)) hidden.add(group);
      chip.setAttribute("aria-pressed", String(!hidden.has(group)));
      redraw();
    });
  document.getElementById("theme").addEventListener("click", () => {
    wanted = wanted === "dark" ? "light" : "dark";
    choose(wanted, true);
  });
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));
  matchMedia("print").addEventListener("change", ({ matches }) => setPrinting(matches));

  let stored = null;
  try { stored = localStorage.getItem("meshfl-theme"); } catch { /* as above */ }
  let wanted = stored || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  choose(wanted, false);
})();
