// Finds parts of pages by words. The index is a script, so that it also works from a file.
"use strict";
{
  const MOST = 12;
  const input = document.getElementById("search");
  const list = document.getElementById("found");

  function scoreOf(entry, words) {
    let score = 0;
    for (const word of words) {
      const inHead = entry.head.toLowerCase().includes(word) || entry.page.toLowerCase().includes(word);
      const found = entry.text.toLowerCase().split(word).length - 1;
      if (!inHead && !found) return 0;
      score += (inHead ? 20 : 0) + Math.min(found, 5);
    }
    return score;
  }

  function excerpt(text, word) {
    const at = Math.max(0, text.toLowerCase().indexOf(word) - 50);
    return (at ? "…" : "") + text.slice(at, at + 160) + (at + 160 < text.length ? "…" : "");
  }

  function line(entry, words) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    const head = document.createElement("strong");
    const text = document.createElement("small");
    link.href = entry.where;
    head.textContent = entry.head === entry.page ? entry.head : `${entry.page}: ${entry.head}`;
    text.textContent = excerpt(entry.text, words[0]);
    link.append(head, text);
    item.append(link);
    return item;
  }

  function show() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length
      ? ENTRIES.map((entry) => [scoreOf(entry, words), entry])
          .filter(([score]) => score > 0)
          .sort(([a], [b]) => b - a)
          .slice(0, MOST)
      : [];
    list.replaceChildren(...found.map(([, entry]) => line(entry, words)));
    if (words.length && !found.length) {
      const none = document.createElement("li");
      none.textContent = `No page has the words "${input.value}".`;
      list.append(none);
    }
    list.hidden = !words.length;
  }

  function move(step) {
    const links = [...list.querySelectorAll("a")];
    const next = links.indexOf(document.activeElement) + step;
    if (next < 0) input.focus();
    else links[Math.min(next, links.length - 1)]?.focus();
  }

  input.addEventListener("input", show);
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape") {
      list.hidden = true;
      input.blur();
    } else if (!list.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("header")) list.hidden = true;
  });
}
