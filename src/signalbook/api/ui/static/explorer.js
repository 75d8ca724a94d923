// Conveniences only: every page reads the same without this file.
"use strict";

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const box = document.querySelector("main input[type=search]") ?? document.querySelector("input[type=search]");
  if (!box) return;
  event.preventDefault();
  box.focus();
  box.select();
});

// A button that copies the text of the element it names; hidden where there is no script to do so.
const prepare = (root) => {
  for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = !navigator.clipboard;
  for (const box of root.querySelectorAll(".choose")) box.hidden = false;
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent;
  const label = button.dataset.label ?? (button.dataset.label = button.textContent);
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not copied";
  }
  setTimeout(() => { button.textContent = label; }, 2000);
});

// A file goes into the text box that its field names: bytes that are no text as Base64.
document.addEventListener("change", async (event) => {
  const field = event.target;
  if (!field.dataset.into || !field.files.length) return;
  const into = document.getElementById(field.dataset.into);
  const bytes = new Uint8Array(await field.files[0].slice(0, into.maxLength).arrayBuffer());
  const base64 = into.form.elements.base64;
  try {
    into.value = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    base64.checked = false;
  } catch {
    into.value = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    base64.checked = true;
  }
});

// Changes as they happen, above those that the page came with: the stream says that there are some, and the page as it
// is now has their lines, as the server makes them.
const watch = (list) => {
  const { live, of } = list.dataset;
  let newest = Number(list.dataset.after);
  let waiting = false;
  const show = async () => {
    waiting = false;
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const lines = [...page.querySelectorAll("li[data-at]")].filter((line) => Number(line.dataset.at) > newest);
    if (!lines.length) return;
    newest = Number(lines[0].dataset.at);
    for (const time of lines.flatMap((line) => [...line.querySelectorAll(":scope > time")])) {
      time.textContent = time.dateTime.slice(0, 16).replace("T", " ");
    }
    document.getElementById("nothing")?.remove();
    list.hidden = false;
    list.prepend(...lines);
    while (list.children.length > 500) list.lastElementChild.remove();
  };
  const stream = new EventSource(live);
  stream.onopen = () => { document.getElementById("live").hidden = false; };
  stream.onmessage = (message) => {
    if (!message.data || waiting) return;
    const { subject } = JSON.parse(message.data);
    if (of && subject !== of && !subject.startsWith(`${of}/`)) return;
    waiting = true;
    setTimeout(() => show().catch(() => {}), 250);
  };
  window.addEventListener("pagehide", () => stream.close());
};

for (const list of document.querySelectorAll("ol[data-live]")) watch(list);
prepare(document);
document.addEventListener("htmx:afterSwap", (event) => prepare(event.target));
