// Runs before the page is drawn, so that it is never drawn in the wrong colours.
{
  const root = document.documentElement;
  const theme = localStorage.getItem("harmony-inspector-theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  root.dataset.boundaries = localStorage.getItem("harmony-inspector-boundaries") ?? "tint";
  root.toggleAttribute("data-ids", localStorage.getItem("harmony-inspector-ids") !== null);
}
