#include "pare/report/page_script.h"

#include <fmt/format.h>

#include <cstdlib>
#include <span>

#include "pare/core/file.h"
#include "pare/report/html.h"

namespace pare {

namespace {

constexpr const char* kScript = R"js(
(() => {
'use strict';
const make = (tag, properties, parent) => parent.appendChild(Object.assign(document.createElement(tag), properties));

const root = document.documentElement;
const isDark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
make('button', {type: 'button', className: 'theme', textContent: 'light / dark',
  onclick: () => { root.dataset.theme = isDark() ? 'light' : 'dark'; }}, document.body);

// Figures come first, words after them, what is unknown last.
const valueOf = (row, column) => {
  const text = row.cells[column] ? row.cells[column].textContent.trim() : '';
  const number = parseFloat(text.replace(/(\d)[\s,\u2009\u202f](?=\d{3}(?!\d))/g, '$1'));
  return text === '\u2013' || text === '' ? [2, 0] : Number.isNaN(number) ? [1, text] : [0, number];
};
const order = (a, b) => a[0] - b[0] || (a[0] === 1 ? a[1].localeCompare(b[1]) : a[1] - b[1]);
for (const table of document.querySelectorAll('table')) {
  const body = table.tBodies[0];
  if (!table.tHead || !body || body.rows.length < 2) continue;
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'sort';
    button.append(...head.childNodes);
    head.append(button);
    button.onclick = () => {
      const down = head.getAttribute('aria-sort') === 'ascending';
      for (const other of heads) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const rows = [...body.rows].map((row) => [valueOf(row, column), row]);
      rows.sort(([a], [b]) => (a[0] === 2 || b[0] === 2 ? a[0] - b[0] : down ? order(b, a) : order(a, b)));
      body.append(...rows.map(([, row]) => row));
    };
  });
}

// The points of a plot: those that are marked say their values, those of bare lines are read back from the axes.
const pointsOf = (plot) => {
  const points = [];
  for (const mark of plot.querySelectorAll('.mark')) {
    const title = mark.querySelector('title');
    if (!title) continue;
    const box = mark.getBBox();
    points.push({x: box.x + box.width / 2, y: box.y + box.height / 2, text: title.textContent});
    mark.setAttribute('aria-label', title.textContent);
    title.remove();
  }
  if (!plot.dataset.axes) return points;
  const [left, top, width, height, x0, x1, y0, y1] = plot.dataset.axes.split(' ').map(Number);
  for (const series of plot.querySelectorAll('g[data-name]')) {
    if (series.querySelector('.mark')) continue;
    for (const line of series.querySelectorAll('.line'))
      for (const [, x, y] of line.getAttribute('d').matchAll(/[ML](\S+) (\S+?)(?=[ML]|$)/g)) {
        const at = [x0 + (x - left) / width * (x1 - x0), y1 - (y - top) / height * (y1 - y0)];
        points.push({x: +x, y: +y, text: `${series.dataset.name}: ${at.map((v) => +v.toPrecision(4)).join(', ')}`});
      }
  }
  return points;
};
const tip = make('div', {className: 'tip', hidden: true}, document.body);
for (const plot of document.querySelectorAll('svg.plot')) {
  let points = null;
  const spot = document.createElementNS(plot.namespaceURI, 'circle');
  spot.setAttribute('class', 'spot');
  spot.setAttribute('r', 7);
  plot.addEventListener('pointermove', (event) => {
    points = points || pointsOf(plot);
    const box = plot.getBoundingClientRect(), scale = plot.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let near = null, least = 30;
    for (const point of points) {
      const distance = Math.hypot(point.x - x, point.y - y);
      if (distance < least) least = distance, near = point;
    }
    tip.hidden = !near;
    if (!near) { spot.remove(); return; }
    tip.textContent = near.text;
    spot.setAttribute('cx', near.x);
    spot.setAttribute('cy', near.y);
    plot.append(spot);
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  });
  plot.addEventListener('pointerleave', () => { tip.hidden = true; spot.remove(); });
}

// The map of the original lies under that of the other model, of which the slider shows a part.
for (const figure of document.querySelectorAll('figure.map[data-panels]')) {
  const image = figure.querySelector('img'), panels = +figure.dataset.panels, gap = +figure.dataset.gap;
  const draw = () => {
    const whole = image.naturalWidth, step = (whole + gap * whole) / panels, width = step - gap * whole;
    const box = make('div', {className: 'compare'}, figure);
    for (const panel of [1, panels - 1]) {
      const canvas = make('canvas', {width: Math.round(width), height: image.naturalHeight}, box);
      canvas.getContext('2d').drawImage(image, Math.round(panel * step), 0, width, image.naturalHeight, 0, 0, canvas.width, canvas.height);
    }
    const slider = make('input', {type: 'range', min: 0, max: 100, value: 50}, figure);
    slider.setAttribute('aria-label', 'from the map of the original to that of the other model');
    slider.oninput = () => box.style.setProperty('--at', `${slider.value}%`);
    figure.insertBefore(box, figure.querySelector('figcaption'));
    figure.insertBefore(slider, figure.querySelector('figcaption'));
  };
  if (image.complete && image.naturalWidth) draw(); else image.addEventListener('load', draw, {once: true});
}
})();
)js";

constexpr const char* kStyle = R"css(
.theme { position: fixed; top: .5rem; right: .5rem; font: inherit; font-size: .75rem; color: var(--soft);
         background: var(--paper); border: 1px solid var(--rule); border-radius: 1rem; padding: .1rem .6rem; cursor: pointer }
.sort { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; text-align: inherit }
[aria-sort=ascending] .sort::after { content: " \2191" }
[aria-sort=descending] .sort::after { content: " \2193" }
.tip { position: fixed; pointer-events: none; z-index: 2; max-width: 24rem; font-size: .8rem; color: var(--paper);
       background: var(--ink); padding: .2rem .5rem; border-radius: .2rem }
.spot { fill: none; stroke: var(--ink); stroke-width: 1.5; pointer-events: none }
.compare { position: relative; --at: 50% }
.compare canvas { display: block; width: 100%; image-rendering: pixelated }
.compare canvas + canvas { position: absolute; inset: 0; clip-path: inset(0 0 0 var(--at)) }
figure input[type=range] { width: 100%; margin: .2rem 0 }
@media print { .theme, .tip, .compare, figure input[type=range] { display: none } }
)css";

// The bytes of a digest that is written in hexadecimal digits.
std::string bytes_of(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::strtol(digits.substr(i, 2).c_str(), nullptr, 16));
  return bytes;
}

}  // namespace

std::string page_script() { return kScript; }
std::string script_css() { return kStyle; }

std::string page_policy() {
  const std::string script = kScript;
  return fmt::format(
      "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{}'; base-uri 'none'; "
      "form-action 'none'",
      base64(bytes_of(sha256(std::as_bytes(std::span(script))))));
}

}  // namespace pare
