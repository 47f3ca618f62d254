"use strict";
// The figures under the pointer, beside it. Without this a browser shows the same words after a moment.
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");
document.body.append(tip);
for (const hit of document.querySelectorAll(".hit")) {
  const title = hit.querySelector("title");
  hit.dataset.words = title.textContent;
  title.remove();
}
document.addEventListener("pointermove", (event) => {
  const hit = event.target.closest ? event.target.closest(".hit") : null;
  tip.hidden = !hit;
  if (!hit) return;
  tip.textContent = hit.dataset.words;
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8);
  // Set by script, which the page's policy allows; an attribute would be refused.
  tip.style.left = Math.max(left, 8) + "px";
  tip.style.top = Math.max(top, 8) + "px";
});
document.addEventListener("pointerleave", () => { tip.hidden = true; });
