// Questions to the server; in a page that was exported, to the data that came with it.

const carried = document.getElementById("carried");
export const exported = carried ? JSON.parse(carried.textContent) : null;

export async function ask(question, words = {}) {
  if (exported) return fromExport(question, words);
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(words)) if (value !== "" && value !== null && value !== undefined) query.set(name, value);
  const answer = await fetch(`/api/${question}?${query}`);
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error || `The viewer answered ${answer.status}.`);
  return told;
}

function fromExport(question, words) {
  const { runs, curves, state, lines, duels } = exported;
  if (question === "runs") return { runs };
  if (question === "state") return state;
  if (question === "curves") return curves;
  if (question === "duel") return known(duels, words.id);
  if (question === "raw") return known(duels, words.id);
  if (question === "group") return groupIn(duels, known(duels, words.id));
  const found = lines.filter((line) => passes(line, words));
  const first = Number(words.from || 0);
  if (question === "duels") {
    return { all: lines.length, unread: 0, unreadable: 0, searched: 1, total: found.length, from: first, lines: found.slice(first, first + Number(words.count)) };
  }
  if (question === "neighbours") {
    const place = found.findIndex((line) => line.id === words.id);
    return { place: place < 0 ? null : place, before: found[place - 1]?.id ?? null, after: place < 0 ? null : found[place + 1]?.id ?? null, total: found.length };
  }
  throw new Error("An exported page has no comparison: ask `agon view` for it.");
}

function known(duels, id) {
  if (!duels[id]) throw new Error(`The duel ${id} was not exported.`);
  return duels[id];
}

function groupIn(duels, one) {
  const found = one.group.ids.map((id) => duels[id]).filter(Boolean);
  return { problem: one.problem, size: one.group.size, duels: found, here: one.id };
}

function passes(line, words) {
  const outcomes = (words.outcome || "").split(",").filter(Boolean);
  const marks = (words.mark || "").split(",").filter(Boolean);
  const has = [...line.marks, ...line.draft.marks, ...(line.challenge?.marks || [])];
  const text = `${line.title} ${line.problem} ${line.draft.answer} ${line.challenge?.answer}`.toLowerCase();
  return (!outcomes.length || outcomes.includes(line.outcome)) && marks.every((mark) => has.includes(mark)) && text.includes((words.search || "").toLowerCase());
}
