#!/bin/bash
# ResNet-20 on CIFAR-10, one thread per rank: images per second and CPU seconds of one rank and of two with the same batch, in
# turns; and how far the weights of both are apart after the same steps.
#   bench/distributed.sh [IMAGES [TURNS]]     (2560, 3)    $PARE is the program (build/release/pare)
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
pare=$(readlink -f "${PARE:-$root/build/release/pare}")
export PARE_DATA=${PARE_DATA:-$root/data}
images=${1:-2560} turns=${2:-3}
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
train=(train --arch resnet20 --data cifar10 --limit "$images" --batch 128 --threads 1 --epochs 1 --lr 0.0002 --schedule constant --no-record -q --json)

# measured RANKS WHAT ARGUMENTS…
measured() {
  local ranks=$1 what=$2
  shift 2
  TIMEFORMAT='%U %S'
  { time "$pare" launch -n "$ranks" "${train[@]}" "$@" --runs "$what" -o "$what.onnx" >"$what.json"; } 2>cpu
  node -e '
    const [what, ranks] = process.argv.slice(1), run = JSON.parse(require("fs").readFileSync(what + ".json"));
    const cpu = require("fs").readFileSync("cpu", "utf8").trim().split("\n").pop().split(" ").reduce((a, b) => a + Number(b), 0);
    console.log(`${ranks} rank(s)  ${what.padEnd(10)}  ${run.history[0].images_per_second.toFixed(0).padStart(5)} images/s  ${cpu.toFixed(1).padStart(6)} CPU s`);' \
    "$what" "$ranks"
}

uptime
for ((turn = 1; turn <= turns; ++turn)); do
  measured 1 "one-$turn" --seed "$turn"
  measured 2 "two-$turn" --seed "$turn"
done
measured 2 synced --seed 1 --sync-bn
for other in two-1 synced; do
  for file in one-1 "$other"; do "$pare" convert "$file.onnx" -q -o "$file.safetensors" --force >/dev/null; done
  node -e '
    const read = (file) => {
      const bytes = require("fs").readFileSync(file), end = 8 + Number(bytes.readBigUInt64LE(0));
      const header = JSON.parse(bytes.subarray(8, end));
      delete header.__metadata__;
      return Object.fromEntries(Object.entries(header).filter(([, t]) => t.dtype === "F32").map(([name, t]) =>
        [name, new Float32Array(new Uint8Array(bytes.subarray(end + t.data_offsets[0], end + t.data_offsets[1])).buffer)]));
    };
    const [a, b] = process.argv.slice(1).map((name) => read(name + ".safetensors"));
    let worst = 0;
    for (const name in a) a[name].forEach((x, i) => (worst = Math.max(worst, Math.abs(x - b[name][i]))));
    console.log(`one rank and ${process.argv[2]}: largest difference of a weight ${worst.toExponential(1)}`)' one-1 "$other"
done
