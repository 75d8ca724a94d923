// The search of a site of files: looks through the index that lies beside, and shows what it finds as text alone.
"use strict";

const MOST = 100;
const { entries, leftOut } = globalThis.signalbookIndex;
const asked = new URLSearchParams(location.search);
const text = (asked.get("q") ?? "").trim().slice(0, 1000);
const type = asked.get("type") ?? "";

const fold = (word) => word.normalize("NFKD").replace(/[^\p{L}\p{N}]/gu, "").toLowerCase();
const parts = (name) => (name.match(/\p{Lu}+(?!\p{Ll})\p{N}*|\p{Lu}?[\p{Ll}\p{Lo}\p{N}]+|\p{Lu}/gu) ?? []).map(fold).filter(Boolean);
const begins = (words, word) => ` ${words}`.includes(` ${word}`);

// A word of the query: whether an entry has it, and how well: 3 in its names, 2 in a field, 1 anywhere, 0 not at all.
const judge = (term, [, , , , , , , names, fields, prose]) => {
  const [, , kind, word] = term;
  const wanted = parts(word);
  const joined = wanted.join("");
  const has = (words) => begins(words, joined) || wanted.every((part) => begins(words, part));
  if (!wanted.length) return 0;
  if (kind !== "field:" && has(names)) return 3;
  if (kind === "name:") return 0;
  const own = (path) => parts(path.slice(path.lastIndexOf(".") + 1));
  const whole = (path) => own(path).join("");
  const field = kind === "field:" && !word.endsWith("*")
    ? fields.find((path) => whole(path) === joined)
    : fields.find((path) => whole(path).startsWith(joined) || (kind !== "field:" && own(path).some((part) => part.startsWith(joined))));
  if (field !== undefined) return 2;
  return kind !== "field:" && has(prose) ? 1 : 0;
};

const terms = [...text.matchAll(/(-?)(field:|name:)?("[^"]*"?|\S+)/gi)].map(([all, not, kind, word]) => [all, not, (kind ?? "").toLowerCase(), word.replaceAll('"', "")]);

const score = (entry) => {
  let least = 3;
  for (const term of terms) {
    const found = judge(term, entry);
    if (term[1] ? found : !found) return 0;
    if (!term[1]) least = Math.min(least, found);
  }
  return entry[1].toLowerCase() === text.toLowerCase() ? 4 : least;
};

const element = (tag, style, ...children) => {
  const made = document.createElement(tag);
  if (style) made.className = style;
  made.append(...children);
  return made;
};

const link = (href, words) => {
  const made = element("a", "", words);
  made.href = href;
  return made;
};

const hit = ([file, id, name, kind, group, description, deprecated, , fields]) => {
  const title = link(`../../${file}`, id);
  title.className = "id";
  const head = element("p", "", title, " ", element("bdi", "", name));
  if (deprecated) head.append(" ", element("span", "mark deprecated", "deprecated"));
  const line = element("li", "", head, element("p", "about", kind, group ? " in " : "", group));
  const field = fields.find((path) => terms.some((term) => !term[1] && judge(term, ["", "", "", "", "", "", 0, "", [path], ""])));
  if (field) line.append(element("p", "snippet", element("span", "type", "field"), " ", element("bdi", "", field)));
  if (description) line.append(element("p", "snippet", element("bdi", "", description)));
  return line;
};

const facets = (found) => {
  const counts = new Map();
  for (const [, entry] of found) counts.set(entry[3], (counts.get(entry[3]) ?? 0) + 1);
  const list = element("ul", "facets");
  for (const [kind, count] of [...counts].sort()) {
    const query = new URLSearchParams(kind === type ? { q: text } : { q: text, type: kind });
    const choice = link(`?${query}`, kind);
    if (kind === type) choice.setAttribute("aria-current", "true");
    list.append(element("li", "", choice, " ", element("span", "number", String(count))));
  }
  const beside = element("aside", "beside", element("h2", "", "type"), list);
  beside.setAttribute("aria-label", "Narrow the search");
  return beside;
};

const show = () => {
  const results = document.getElementById("results");
  const box = document.getElementById("search");
  if (box) box.value = text;
  if (leftOut) results.append(element("p", "notice", `The index of this site has no room for everything; it leaves out: ${leftOut}.`));
  if (!text) return;
  const matched = entries.map((entry) => [score(entry), entry]).filter(([points]) => points);
  const found = matched.filter(([, entry]) => !type || entry[3] === type);
  found.sort(([a, first], [b, second]) => b - a || first[1].length - second[1].length || (first[0] < second[0] ? -1 : 1));
  const total = element("p", "total", `${found.length} found for “`, element("bdi", "", text), "”");
  if (found.length > MOST) total.append(`, of which ${MOST} are shown`);
  const list = element("ol", "hits", ...found.slice(0, MOST).map(([, entry]) => hit(entry)));
  const column = element("div", "", total, found.length ? list : element("p", "empty", "Nothing here has it."));
  results.append(matched.length ? element("div", "columns found", column, facets(matched)) : column);
};

show();
