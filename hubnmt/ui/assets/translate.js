// Functions of the Translate tab's events.

// The clipboard API requires localhost or https; otherwise `execCommand` is tried, which some
// browsers lack.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const isDone = document.execCommand("copy");
    field.remove();
    return isDone;
  }
}

function announceCopied() {
  document.querySelector(".announced").textContent = "Copied";
  return "Copied";
}

async function copyTranslation(text) {
  if (await copyText(text)) return announceCopied();
  const field = document.querySelector("#target textarea");
  field.focus();
  field.select();
  return "Press Ctrl+C";
}

// The text is in the URL fragment, which browsers do not send to the server.
async function copyLink(text, model) {
  const link = `${location.href.split("#")[0]}#${new URLSearchParams({ model, text })}`;
  history.replaceState(null, "", link);
  return (await copyText(link)) ? announceCopied() : "See address bar";
}

// Clears the forced prefix, or restores it; the button holds the other one.
function swapPrefix(prefix) {
  const clear = document.querySelector("#clear");
  [prefix, clear.value] = [clear.value, prefix];
  return prefix;
}

// Applies the text and model of a link, or those before a reload. The text is truncated between
// code points. Only the page's listed models are opened, so that a link cannot trigger a download.
function openLink(text, model, { names, limit, more }) {
  const link = new URLSearchParams(location.hash.slice(1));
  const stored = JSON.parse(sessionStorage.getItem("hubnmt-text") ?? "{}");
  const fields = link.has("text") || link.has("model") ? Object.fromEntries(link) : stored;
  const isListed = names.includes(fields.model);
  if (fields.model && !isListed) {
    const told = document.querySelector(".typing .told");
    told.textContent =
      `The model ${fields.model} cannot be opened by a link: ${model} translates.${more}`;
    told.hidden = false;
  }
  const given = "text" in fields ? [...fields.text].slice(0, limit).join("") : text;
  return [given, isListed ? fields.model : model];
}
