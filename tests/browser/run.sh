#!/bin/bash
# Pages in a real browser: headless Chromium opens them, at the width of a desk and of a phone, light and dark, and prints
# them; nothing is said on the console, every plot has marks that can be seen, nothing sticks out of a narrow window.
#   tests/browser/run.sh [PROGRAM [PAGE…]]     (build/release/pare; pages made here, of Fashion-MNIST)
# Where there is no Chromium it says so and is skipped.
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
export PARE_DATA=${PARE_DATA:-$root/data}
pare=$(readlink -f "${1:-$root/build/release/pare}")
pages=()
for page in "${@:2}"; do pages+=("$(readlink -f "$page")"); done
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "skipped: there is no Chromium here (apt-get install chromium)"
  exit 0
}
# shellcheck source=tests/cli/lib.sh
source "$root/tests/cli/lib.sh"

# One record of every kind that is made in seconds: accuracies, a training, heat maps, plans, latencies.
made_here=false
if [ ${#pages[@]} -eq 0 ]; then
  made_here=true
  few=(--data fashion-mnist --limit 200)
  exits "train" 0 train --arch lenet-5 --data fashion-mnist --limit 500 --epochs 1 -q -o a.onnx
  exits "prune" 0 prune a.onnx "${few[@]}" --channels 0.5 --round-to 1 -q -o b.onnx
  exits "prune, nothing taken over" 0 prune a.onnx "${few[@]}" --channels 0.5 --round-to 1 --compensate none -q -o c.onnx
  exits "eval" 0 eval a.onnx b.onnx c.onnx "${few[@]}" -q
  exits "explain" 0 explain a.onnx --compare b.onnx --data fashion-mnist --count 2 -q -o maps
  exits "fuse" 0 fuse "$root"/tests/data/cli/mlp{,_changed}.onnx -q -o f.onnx
  exits "bench" 0 bench a.onnx b.onnx --rounds 5 --seconds 0.2 -q
  exits "report" 0 report runs -q -o report.html
  exits "diff" 0 diff a.onnx b.onnx --html diff.html
  pages=("$PWD/report.html" "$PWD/diff.html")
fi

# A page that holds the one in question, with its script or without, and writes down what it sees of it. Where there is a script it
# clicks on headings, moves over a plot and pulls a slider.
cat >look.html <<'PAGE'
<!doctype html><iframe id="f"></iframe><pre id="seen"></pre><script>
const [page, width, plain] = decodeURIComponent(location.hash.slice(1)).split('|');
const frame = document.getElementById('f');
if (plain) frame.sandbox = 'allow-same-origin';
const used = (d) => {
  const head = d.querySelector('.sort'), column = () => [...head.closest('table').tBodies[0].rows].map((row) => row.cells[0].textContent.trim());
  const up = head ? (head.click(), column()) : [], down = head ? (head.click(), column()) : [];
  const plot = d.querySelector('svg.plot'), mark = plot && plot.querySelector('.mark'), at = mark && mark.getBoundingClientRect();
  if (at) plot.dispatchEvent(new PointerEvent('pointermove', {clientX: at.x + at.width / 2, clientY: at.y + at.height / 2}));
  const tip = d.querySelector('.tip'), slider = d.querySelector('figure input[type=range]');
  if (slider) { slider.value = 80; slider.dispatchEvent(new Event('input')); }
  const theme = d.querySelector('.theme');
  const paper = () => d.defaultView.getComputedStyle(d.body).backgroundColor, before = paper();
  if (theme) theme.click();
  const turned = paper() !== before;
  if (theme) theme.click();
  return {sorts: up.length > 1 && up.join() === down.reverse().join(), tip: tip && !tip.hidden ? tip.textContent : '',
    slides: slider ? d.querySelector('.compare').style.getPropertyValue('--at') : '', turned, sliders: d.querySelectorAll('.compare').length};
};
frame.style.cssText = `width:${width}px;height:900px;border:0`;
frame.onload = () => {
  const d = frame.contentDocument;
  const visible = (e) => { const b = e.getBoundingClientRect(); return b.width > 0 && b.height > 0; };
  const drawn = (i) => i.complete && i.naturalWidth > 0 && visible(i);
  const plots = [...d.querySelectorAll('svg.plot')];
  const marked = plots.filter((p) => [...p.querySelectorAll('.mark,.bar,.box')].some(visible));
  document.getElementById('seen').textContent = JSON.stringify({
    ...used(d),
    title: d.title, plots: plots.length, marked: marked.map((p) => p.getAttribute('aria-label')),
    tables: d.querySelectorAll('table').length, headings: [...d.querySelectorAll('h2')].map((h) => h.textContent),
    pictures: [...d.images].filter(drawn).length, images: d.images.length,
    maps: [...d.querySelectorAll('figure.map img')].filter(drawn).length,
    cut: [...d.querySelectorAll('.wide')].filter((w) => w.scrollWidth > w.clientWidth).map((w) => w.textContent.trim().slice(0, 40)),
    scripts: d.scripts.length, wide: d.documentElement.scrollWidth > d.documentElement.clientWidth,
    paper: frame.contentWindow.getComputedStyle(d.body).backgroundColor});
};
frame.src = page;
</script>
PAGE

flags=(--headless=new --no-sandbox --disable-gpu --no-first-run --user-data-dir="$scratch/profile" --allow-file-access-from-files)
# look NAME PAGE WIDTH FLAGS…: fills $seen
look() {
  local page=$2 width=$3
  shift 3
  timeout 120 "$browser" "${flags[@]}" "$@" --enable-logging=stderr --virtual-time-budget=4000 --dump-dom \
    "file://$PWD/look.html#file://$page|$width|${plain:-}" >dom 2>console </dev/null
  seen=$(sed -n 's/.*<pre id="seen">\(.*\)<\/pre>.*/\1/p' dom | sed 's/&quot;/"/g')
}
says() { node -e 'const s = JSON.parse(process.argv[1] || "{}"); process.exit(eval(process.argv[2]) ? 0 : 1)' "$seen" "$1"; }
for page in "${pages[@]}"; do
  name=$(basename "$page")
  for width in 1200 375; do
    look "$name" "$page" $width
    check "$name at $width: opens with its tables, and one script" "$seen" says 's.title && s.tables > 0 && s.scripts === 1'
    check "$name at $width: every plot has marks" "$seen" says 's.plots > 0 && s.marked.length === s.plots'
    check "$name at $width: every picture is drawn" "$seen" says 's.pictures === s.images'
    if $made_here && [ "$name" = report.html ]; then
      check "$name at $width: accuracy against size" "$seen" says 's.marked.some((p) => p.startsWith("Accuracy against parameters"))'
      check "$name at $width: training" "$seen" says 's.marked.includes("Loss of the training images")'
      check "$name at $width: two heat maps" "$seen" says 's.maps === 2'
      check "$name at $width: latencies" "$seen" says 's.headings.includes("Speed")'
    fi
    check "$name at $width: nothing sticks out" "$seen" says '!s.wide'
    check "$name at $width: nothing on the console" "$(grep CONSOLE console | head -n 2)" bash -c '! grep -q CONSOLE console'
  done
  check "$name: light and dark by a button" "$seen" says 's.turned'
  if $made_here && [ "$name" = report.html ]; then
    check "$name: a heading sorts its table, and back" "$seen" says 's.sorts'
    check "$name: a plot says the value under the pointer" "$seen" says '/: .*, /.test(s.tip)'
    check "$name: a slider between two heat maps" "$seen" says 's.sliders === 2 && s.slides === "80%"'
  fi
  light=$seen
  plain=1
  look "$name" "$page" 1200
  plain=
  check "$name: whole without its script" "$seen" says 's.tables > 0 && s.marked.length === s.plots && s.pictures === s.images && s.sliders === 0'
  look "$name" "$page" 1200 --blink-settings=preferredColorScheme=0
  check "$name: dark where the reader wants it" "$seen and $light" says 's.paper !== "rgb(255, 255, 255)"'
  timeout 120 "$browser" "${flags[@]}" --virtual-time-budget=4000 --no-pdf-header-footer --print-to-pdf="$PWD/page.pdf" \
    "file://$page" >/dev/null 2>console </dev/null
  # At the width of paper, with the style of print, no table is wider than its place: nothing is cut off there.
  sed 's/@media print/@media all/g' "$page" >printed.html
  look "$name" "$PWD/printed.html" 700
  check "$name: printed with all its columns" "$seen" says 's.tables > 0 && s.cut.length === 0'
  check "$name: can be printed" "$(wc -c <page.pdf) bytes" bash -c '[ "$(head -c 4 page.pdf)" = %PDF ] && [ "$(wc -c <page.pdf)" -gt 10000 ]'
  rm -f page.pdf
  # A picture of one colour is a few kB.
  timeout 120 "$browser" "${flags[@]}" --virtual-time-budget=4000 --hide-scrollbars --window-size=1100,1600 \
    --screenshot="$PWD/page.png" "file://$page" >/dev/null 2>console </dev/null
  check "$name: a screenshot that is not blank" "$(wc -c <page.png) bytes" \
    bash -c '[ "$(head -c 4 page.png | tail -c 3)" = PNG ] && [ "$(wc -c <page.png)" -gt 40000 ]'
  rm -f page.png
  check "$name: below 2 MB" "$(stat -c %s "$page") bytes" test "$(stat -c %s "$page")" -lt 2000000
done
summary
