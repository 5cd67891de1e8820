// Measures the page that it is appended to, and sends the answer to the page around it. Reads only what a reader gets:
// sizes, colours, targets of links.
addEventListener("load", () => {
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  const problems = [];
  const page = document.documentElement;
  if (page.scrollWidth > innerWidth) {
    const wide = [...document.querySelectorAll("body *")].filter(
      (e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, pre"));
    problems.push(`the page is ${page.scrollWidth} wide in ${innerWidth}: ${wide.slice(0, 3).map((e) => e.outerHTML.slice(0, 60))}`);
  }
  const pictures = [...document.querySelectorAll("main svg, main img")];
  for (const picture of pictures) {
    const { width, height } = picture.getBoundingClientRect();
    if (width < 50 || height < 50) problems.push(`a picture is ${width} by ${height}`);
    if (picture.tagName === "IMG" && !picture.naturalWidth) problems.push("an image is broken");
  }
  const links = [...document.querySelectorAll("a[href^='#']")];
  for (const link of links) {
    if (!document.getElementById(link.getAttribute("href").slice(1))) problems.push(`${link.getAttribute("href")} leads nowhere`);
  }
  const channel = (c) => (c /= 255, c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const color = (text) => text.match(/[\d.]+/g).map(Number);
  const background = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const c = color(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  };
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || e.closest("svg, script")) continue;
    texts += 1;
    const style = getComputedStyle(e);
    const range = document.createRange();
    range.selectNodeContents(node);
    const drawn = [...range.getClientRects()].some((r) => r.width > 0 && r.height > 0);
    const shown = node.data.trim().slice(0, 40);
    if (!drawn || style.visibility !== "visible" || style.opacity === "0") problems.push(`"${shown}" cannot be seen`);
    if (parseFloat(style.fontSize) < 10) problems.push(`"${shown}" is too small`);
    const [a, b] = [luminance(color(style.color)), luminance(background(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) problems.push(`"${shown}" has a contrast of ${contrast.toFixed(1)}`);
  }
  const loaded = performance.getEntriesByType("resource").map((r) => r.name);
  if (loaded.length) problems.push(`loads ${loaded}`);
  parent.postMessage(JSON.stringify({
    width: innerWidth, dark: matchMedia("(prefers-color-scheme: dark)").matches, title: document.title,
    pictures: pictures.length, links: links.length, texts, problems: problems.slice(0, 20),
  }), "*");
});
