// Runs before the page is drawn, so that it is never drawn in the wrong colours.
{
  const chosen = localStorage.getItem("harmony-inspector-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
