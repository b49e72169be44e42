"use strict";
// A slider for each block of maps. Without this script the page shows the last checkpoint.
const palette = JSON.parse(document.getElementById("palette")?.textContent ?? "[]");

// The index of the colour as `Scale.colour` in colours.py has it; -1 where there is nothing to show, or 0.
function colourIndex(value, {low, high, logarithmic}) {
  if (value === null || value === 0 || (logarithmic && value < 0)) return -1;
  const [v, a, b] = logarithmic ? [value, low, high].map(Math.log) : [value, low, high];
  return Math.trunc(Math.min(Math.max((v - a) / (b - a) * palette.length, 0), palette.length - 1));
}

// A run with fewer checkpoints than another stays at its last.
function drawFigure(figure, maps, checkpoint) {
  const {kind} = figure.dataset;
  const moment = Math.min(checkpoint, maps.steps.length - 1);
  const scale = maps.scales[kind][moment];
  figure.querySelectorAll("g rect").forEach((rect, cell) => {
    const index = colourIndex(maps.values[kind][moment][cell], scale);
    rect.setAttribute("fill", index < 0 ? "none" : palette[index]);
  });
  figure.querySelector(".steps").textContent = maps.steps[moment];
  figure.querySelectorAll(".ticks span").forEach((span, i) => { span.textContent = scale.ticks[i]; });
}

for (const study of document.querySelectorAll(".study")) {
  const maps = JSON.parse(study.querySelector("script").textContent);
  const slider = study.querySelector("input");
  slider.addEventListener("input", () => {
    const checkpoint = Number(slider.value);
    study.querySelector("output").textContent = `${checkpoint + 1} of ${Number(slider.max) + 1}`;
    study.querySelectorAll("figure").forEach(figure => drawFigure(figure, maps[figure.dataset.method], checkpoint));
  });
  slider.value = slider.max; // a browser may restore what was chosen before a reload
  slider.closest(".slider").hidden = false;
}
