"use strict";
// Keys, the lost server, and the plot of a group's history. Everything else is htmx.

const SECTIONS = {o: "/", g: "/groups", l: "/log", c: "/cluster", a: "/audit", s: "/settings"};
const KEY_PAIR_MS = 1000;
const MOMENT_S = 1800;

const isTyping = (target) => target.matches("input, select, textarea");
const help = document.getElementById("help");
let goPressedAt = -Infinity;

document.getElementById("show-help").addEventListener("click", () => help.showModal());
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.key === "Escape" && isTyping(event.target)) event.target.blur();
  if (isTyping(event.target)) return;
  if (event.key === "/") {
    event.preventDefault();
    (document.querySelector("#filters input[name=q]") || document.getElementById("find")).focus();
  } else if (event.key === "?") {
    help.showModal();
  } else if (event.timeStamp - goPressedAt < KEY_PAIR_MS && SECTIONS[event.key]) {
    location.assign(SECTIONS[event.key]);
  } else {
    goPressedAt = event.key === "g" ? event.timeStamp : -Infinity;
  }
});

// The corner says whether the server answers. If this program itself is gone, the page says so.
const corner = document.getElementById("status");
const noteState = (state) => {
  document.body.classList.toggle("is-lost", state === "lost");
  if (state === "serving" && document.getElementById("lost")) location.reload();
};
new MutationObserver(() => {
  const shown = corner.querySelector("[data-state]");
  if (shown) noteState(shown.dataset.state);
}).observe(corner, {attributes: true, childList: true, characterData: true, subtree: true});
document.addEventListener("htmx:error", () => {
  const told = document.createElement("span");
  told.className = "state lost";
  told.dataset.state = "lost";
  told.textContent = "offsetd web does not answer, trying again …";
  corner.replaceChildren(told);
});

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Times as on the pages: the day first, 24 hours. Each row: from which step on, the label, and what
// stands below it at the first tick and where the year, the month, the day, the hour … changes.
const DAY = "{YYYY}-{MM}-{DD}";
const TIMES = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, DAY, null, null, null, null, null, null, 1],
  [60, "{HH}:{mm}", `\n${DAY}`, null, `\n${DAY}`, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", `\n${DAY}`, null, `\n${DAY}`, null, null, null, 1],
  [0.001, ":{ss}.{fff}", `\n${DAY} {HH}:{mm}`, null, `\n${DAY} {HH}:{mm}`, null, `\n{HH}:{mm}`, null, 1],
];

const plotOf = (box, columns) => {
  const axis = {stroke: color("--dim"), grid: {stroke: color("--line")}, ticks: {stroke: color("--line")}};
  const whole = (_, values) => values.map((value) => value.toLocaleString("en-US"));
  // Without a place there is no offset to tell; without an offset at a place, it was deleted.
  const offsetText = (_, value, __, place) => (place == null ? "" : value == null ? "deleted" : value.toLocaleString("en-US"));
  const times = columns.times_ms.map((ms) => ms / 1000);
  const [first, last] = [times[0], times.at(-1)];
  const options = {
    width: box.clientWidth - 20,
    height: 240,
    // By default, the marked point has the colour of the ground, as a gap has.
    cursor: {drag: {x: true, y: false}, points: {size: 10, fill: color("--link"), stroke: color("--link")}},
    // A single moment has no span of its own.
    scales: {x: {range: (_, least, most) => (first === last ? [first - MOMENT_S, last + MOMENT_S] : [least, most])}},
    series: [
      {label: "time", value: `${DAY} {HH}:{mm}:{ss}`},
      {label: "offset", stroke: color("--link"), width: 1.5, points: {show: columns.times_ms.length < 80, fill: color("--panel")},
        paths: uPlot.paths.stepped({align: 1}), value: offsetText},
    ],
    axes: [{...axis, values: TIMES, space: 80}, {...axis, size: 90, values: whole}],
  };
  return new uPlot(options, [times, columns.offsets], box);
};

const showPlot = async (box) => {
  const told = document.getElementById("plot-told");
  told.textContent = "Loading …";
  let columns;
  try {
    columns = await (await fetch(box.dataset.history)).json();
  } catch {
    columns = {problem: "offsetd web does not answer."};
  }
  if (columns.problem || !columns.times_ms.length) {
    told.textContent = columns.problem || "The log has no history of this partition any more.";
    return;
  }
  const count = columns.events.toLocaleString("en-US");
  told.textContent = columns.is_cut
    ? `The newest ${count} commits and deletions.`
    : `${count} ${columns.events === 1 ? "commit or deletion" : "commits and deletions"}, as far back as the log goes.`;
  const plot = plotOf(box, columns);
  document.getElementById("plot-use").hidden = false;
  box.dataset.plotted = String(columns.times_ms.length);
  addEventListener("resize", () => plot.setSize({width: box.clientWidth - 20, height: 240}));
};

const plotBox = document.getElementById("plot");
if (plotBox) showPlot(plotBox);
