// Tables sort by a click on a head, and are saved as CSV with plain numbers.
"use strict";
const UNITS = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, "%": 1, x: 1 };
// A cell as a number, and whether that is a time, in nanoseconds.
function figure(text) {
  const found = /^(-?[\d,]*\.?\d+) ?(ns|us|ms|s|%|x)?( MB\/s)?$/.exec(text);
  if (!found) return null;
  const unit = found[2] || "";
  const time = unit in UNITS && UNITS[unit] >= 1 && !["%", "x"].includes(unit);
  return { value: Number(found[1].replaceAll(",", "")) * (UNITS[unit] || 1), time };
}
function sort(head) {
  const table = head.closest("table"), body = table.tBodies[0], at = head.cellIndex;
  const down = head.ariaSort !== "descending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.ariaSort = down ? "descending" : "ascending";
  const rows = [...body.rows].map((row) => {
    const text = row.cells[at].textContent;
    return { row, text, number: figure(text) };
  });
  rows.sort((a, b) => {
    if (!a.text || !b.text) return !a.text - !b.text;
    const order = a.number && b.number ? a.number.value - b.number.value : a.text.localeCompare(b.text);
    return down ? -order : order;
  });
  body.append(...rows.map((sorted) => sorted.row));
}
function csv(table) {
  const rows = [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
  const heads = rows.shift();
  const times = heads.map((_, at) => rows.some((row) => figure(row[at])?.time));
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const plain = (text) => figure(text)?.value ?? text;
  return [heads.map((head, at) => (times[at] ? head + " (ns)" : head)), ...rows.map((row) => row.map(plain))]
    .map((row) => row.map(String).map(quoted).join(","))
    .join("\n");
}
function save(button) {
  const table = document.getElementById(button.dataset.of);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csv(table) + "\n"], { type: "text/csv" }));
  link.download = button.dataset.of + ".csv";
  link.click();
  URL.revokeObjectURL(link.href);
}
// A large page comes packed.
async function unpack(part) {
  const bytes = Uint8Array.from(atob(part.textContent), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  part.outerHTML = await new Response(plain).text();
}
function equip() {
  for (const head of document.querySelectorAll("th")) {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    button.title = "Sort";
    button.onclick = () => sort(head);
    head.append(button);
  }
  for (const button of document.querySelectorAll("button[data-of]")) {
    button.hidden = false;
    button.onclick = () => save(button);
  }
}
Promise.all([...document.querySelectorAll("script.packed")].map(unpack)).then(equip);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));
