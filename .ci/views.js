// Runs in the page that .ci/views.py serves: every page of the book in a frame, as wide as a phone and as a desk, in light and in
// dark, and what a reader would see to be wrong. The server has put the pages and the widths into `asked`.
const LEAST_CONTRAST = 3.0;

function channel(value) {
  const share = value / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}

function luminance([red, green, blue]) {
  return 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
}

function parsed(colour) {
  const numbers = colour.match(/[\d.]+/g).map(Number);
  if (colour.startsWith("color(")) return [...numbers.slice(0, 3).map((share) => 255 * share), numbers[3] ?? 1];
  return [numbers[0], numbers[1], numbers[2], numbers[3] ?? 1];
}

function over([red, green, blue, alpha], below) {
  return [red, green, blue].map((value, index) => alpha * value + (1 - alpha) * below[index]);
}

function background(element, view) {
  const layers = [];
  for (let each = element; each; each = each.parentElement) {
    const colour = parsed(view.getComputedStyle(each).backgroundColor);
    if (colour[3] > 0) layers.push(colour);
    if (colour[3] === 1) break;
  }
  return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
}

function contrast(element, view) {
  const below = background(element, view);
  const above = over(parsed(view.getComputedStyle(element).color), below);
  const [less, more] = [luminance(below), luminance(above)].sort((a, b) => a - b);
  return (more + 0.05) / (less + 0.05);
}

function described(element) {
  const name = element.className && element.className.baseVal === undefined ? `.${[...element.classList].join(".")}` : "";
  return `${element.tagName.toLowerCase()}${name} "${(element.textContent || "").trim().slice(0, 40).replace(/\s+/g, " ")}"`;
}

function scrolls(element, view) {
  for (let each = element; each && each.tagName !== "BODY"; each = each.parentElement) {
    if (view.getComputedStyle(each).overflowX !== "visible") return true;
  }
  return false;
}

function seen(element) {
  return element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
}

function tooWide(document, view) {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const found = [...document.querySelectorAll("main *, article *")].filter(
    (each) => seen(each) && each.getBoundingClientRect().right > width + 1 && !scrolls(each, view)
  );
  const innermost = found.filter((each) => !found.some((other) => other !== each && each.contains(other)));
  return [`is ${document.documentElement.scrollWidth - width} pixels too wide: ${innermost.slice(0, 3).map(described).join("; ")}`];
}

function cut(document, view) {
  // A box that hides what does not fit, in place of scrolling it.
  return [...document.querySelectorAll("article pre, article table, article div.cell_output div, article p, article li")]
    .filter((each) => seen(each) && each.scrollWidth > each.clientWidth + 2 && each.clientWidth > 0)
    .filter((each) => ["hidden", "clip"].includes(view.getComputedStyle(each).overflowX))
    .map((each) => `cuts ${described(each)}`);
}

function images(document) {
  return [...document.querySelectorAll("article img")].filter(seen).flatMap((each) => {
    if (!each.complete || !each.naturalWidth) return [`does not show the image ${each.getAttribute("src").slice(0, 80)}`];
    const stretched = each.clientWidth / each.clientHeight / (each.naturalWidth / each.naturalHeight);
    return Math.abs(stretched - 1) > 0.05 ? [`stretches an image by ${stretched.toFixed(2)}`] : [];
  });
}

function faint(document, view) {
  const found = new Map();
  const walker = document.createTreeWalker(document.body, 4);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.closest("main, aside, header") || !seen(element)) continue;
    if (element.closest("script, style, .headerlink, button, svg")) continue;
    const ratio = contrast(element, view);
    const colours = `${view.getComputedStyle(element).color} on ${background(element, view).map(Math.round)}`;
    if (ratio < LEAST_CONTRAST && !found.has(colours)) found.set(colours, `has contrast ${ratio.toFixed(1)}: ${colours}, ${described(element)}`);
  }
  return [...found.values()];
}

async function loaded(frame, page) {
  await new Promise((resolve) => {
    frame.onload = resolve;
    frame.src = page;
  });
  await frame.contentDocument.fonts.ready;
}

async function look() {
  const frame = document.createElement("iframe");
  frame.style.cssText = "border: 0; height: 900px";
  document.body.append(frame);
  const found = [];
  for (const page of asked.pages) {
    frame.style.width = `${asked.widths[0]}px`;
    await loaded(frame, `/${page}`);
    const [inside, view] = [frame.contentDocument, frame.contentWindow];
    inside.querySelectorAll("details").forEach((each) => (each.open = true));
    inside.querySelectorAll("img").forEach((each) => (each.loading = "eager"));
    await Promise.all([...inside.images].map((each) => each.decode().catch(() => null)));
    for (const width of asked.widths) {
      frame.style.width = `${width}px`;
      for (const what of [...tooWide(inside, view), ...cut(inside, view), ...images(inside)]) found.push([page, `${width}`, what]);
    }
    for (const theme of ["light", "dark"]) {
      inside.body.dataset.theme = theme;
      for (const what of faint(inside, view)) found.push([page, theme, what]);
    }
  }
  await fetch("/found", { method: "POST", body: JSON.stringify({ pages: asked.pages.length, found }) });
}

look().catch((error) => fetch("/found", { method: "POST", body: JSON.stringify({ pages: 0, found: [["-", "-", String(error)]] }) }));
