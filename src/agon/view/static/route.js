// Where we are, as the part of the address behind the #: every view has a link.

export const FILTERS = ["outcome", "mark", "policy", "role", "step", "reward", "length", "problem", "play", "search", "sort"];

export function here() {
  const [page, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { page: page || "overview", ...Object.fromEntries(new URLSearchParams(query)) };
}

export function link(place) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(place)) {
    if (name !== "page" && value !== "" && value !== null && value !== undefined) query.set(name, value);
  }
  return `#/${place.page}${query.size ? `?${query}` : ""}`;
}

export function go(place, replace = false) {
  const target = link(place);
  if (target === location.hash) return;
  if (replace) {
    history.replaceState(null, "", target);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = target;
}

export function filtersOf(place) {
  return Object.fromEntries(FILTERS.filter((name) => place[name]).map((name) => [name, place[name]]));
}

export function based(place) {
  return { run: place.run, source: place.source };
}
