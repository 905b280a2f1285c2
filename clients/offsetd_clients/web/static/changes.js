"use strict";
// The slider over a group's history moves the choice of a moment, which also works without it.

const moment = document.getElementById("moment");
const slider = document.getElementById("slider");
if (moment && slider) {
  const told = () => slider.setAttribute("aria-valuetext", moment.selectedOptions[0].text);
  slider.value = String(moment.selectedIndex);
  document.getElementById("slide").hidden = false;
  told();
  slider.addEventListener("input", () => {
    moment.selectedIndex = Number(slider.value);
    told();
  });
  moment.addEventListener("change", () => {
    slider.value = String(moment.selectedIndex);
    told();
  });
}
