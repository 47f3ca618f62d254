// What mdBook's own pages lack for readers with a keyboard or a screen reader. site.css has the rest.

// Only these themes are checked for contrast.
for (const theme of ["rust", "coal", "ayu"]) {
  document.getElementById(`mdbook-theme-${theme}`)?.closest("li").remove();
}

document.getElementById("mdbook-menu-bar")?.setAttribute("role", "banner");

// The search says what it is, and its results carry no label that belongs to no role.
document.getElementById("mdbook-search-wrapper")?.setAttribute("role", "search");
const search = document.getElementById("mdbook-searchbar");
search?.setAttribute("aria-label", "Search");
search?.setAttribute("aria-describedby", "mdbook-searchresults-header");
const results = document.getElementById("mdbook-searchresults");
if (results) {
  const clean = () => {
    for (const teaser of results.querySelectorAll(".teaser[aria-label]")) teaser.removeAttribute("aria-label");
  };
  new MutationObserver(clean).observe(results, { childList: true });
}

// The empty corner of a table is no heading.
for (const corner of document.querySelectorAll("th:empty")) corner.replaceWith(document.createElement("td"));

// The button of the sidebar is a label, which a keyboard cannot reach.
const label = document.getElementById("mdbook-sidebar-toggle");
const box = document.getElementById("mdbook-sidebar-toggle-anchor");
if (label && box) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = label.className;
  button.title = label.title;
  button.innerHTML = label.innerHTML;
  button.setAttribute("aria-label", label.title);
  button.setAttribute("aria-controls", "mdbook-sidebar");
  const tell = () => button.setAttribute("aria-expanded", String(box.checked));
  tell();
  box.addEventListener("change", tell);
  button.addEventListener("click", () => label.click());
  label.before(button);
  label.style.display = "none";
}

// What scrolls sideways can be scrolled by the keyboard.
const reach = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
for (const element of document.querySelectorAll("pre > code, .table-wrapper")) reach.observe(element);
