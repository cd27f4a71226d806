#!/bin/bash
# Networks that segment and detect, from the command line: data with masks and boxes, their metrics, decoders, and agreement.
#   tests/cli/vision.sh [PROGRAM]     (build/release/pare); needs node
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
pare=$(readlink -f "${1:-$root/build/release/pare}")
models=$root/tests/data/cli
schema=$root/docs/schemas/pare.schema.json
# shellcheck source=tests/cli/lib.sh
source "$root/tests/cli/lib.sh"

# Six pictures of 16 x 16, red left of a column and green or blue right of it; their masks (0, 1, 2 and a void column); a box that
# detector.onnx always finds, in three notations; and the same pictures without labels.
node -e '
  const fs = require("fs"), zlib = require("zlib");
  const crc = (bytes) => { let c = ~0; for (const b of bytes) { c ^= b; for (let k = 0; k < 8; ++k) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1; } return ~c >>> 0; };
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]), out = Buffer.alloc(12 + data.length);
    out.writeUInt32BE(data.length); body.copy(out, 4); out.writeUInt32BE(crc(body), 8 + data.length);
    return out;
  };
  const png = (channels, pixel) => {
    const head = Buffer.alloc(13); head.writeUInt32BE(16); head.writeUInt32BE(16, 4); head[8] = 8; head[9] = channels === 1 ? 0 : 2;
    const rows = [];
    for (let y = 0; y < 16; ++y) { rows.push(0); for (let x = 0; x < 16; ++x) rows.push(...pixel(x, y)); }
    return Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), chunk("IHDR", head), chunk("IDAT", zlib.deflateSync(Buffer.from(rows))), chunk("IEND", Buffer.alloc(0))]);
  };
  for (const d of ["seg/images", "seg/masks", "plain", "yolo/images", "yolo/labels"]) fs.mkdirSync(d, {recursive: true});
  const images = [], annotations = [];
  for (let i = 0; i < 6; ++i) {
    const edge = 4 + i, right = 1 + i % 2, picture = png(3, (x) => [0, 1, 2].map((c) => (c === (x < edge ? 0 : right) ? 255 : 0)));
    for (const d of ["seg/images", "plain", "yolo/images"]) fs.writeFileSync(`${d}/${i}.png`, picture);
    fs.writeFileSync(`seg/masks/${i}.png`, png(1, (x) => [x === edge ? 255 : x < edge ? 0 : right]));
    fs.writeFileSync(`yolo/labels/${i}.txt`, "0 0.5 0.5 0.5 0.5\n");
    images.push({id: i, file_name: `${i}.png`});
    annotations.push({image_id: i, category_id: 1, bbox: [4, 4, 8, 8], iscrowd: 0});
  }
  fs.writeFileSync("plain/boxes.json", JSON.stringify({images, annotations, categories: [{id: 1, name: "square"}]}));'

# value EXPRESSION: of the document on stdout, r
value() { node -e "const r = JSON.parse(require('fs').readFileSync('stdout', 'utf8')); process.exit($1 ? 0 : 1)"; }
says() { check "$1" "$(head -c 600 stdout)" value "$2"; }
fits() { check "$1: as the schema says" "$(head -c 300 stdout)" test -z "$(node "$root/tests/cli/validate.mjs" "$schema" "$2" stdout)"; }
plain=(--mean 0 --std 1 --threads 1 --no-record --json -q)

exits "eval of masks" 0 eval "$models/segmenter.onnx" --data segmentation:seg "${plain[@]}"
says "eval of masks: every pixel is right" 'r.models[0].metrics.miou === 1 && r.models[0].metrics["pixel-accuracy"] === 1 && r.samples === 6'
says "eval of masks: and of every class" 'r.models[0].classes["2"] === 1'
fits "eval of masks" eval
exits "eval of some masks" 0 eval "$models/segmenter.onnx" --data segmentation:seg --limit 2 --metrics miou "${plain[@]}"
says "eval of some masks: two, and one metric" 'r.samples === 2 && Object.keys(r.models[0].metrics).join() === "miou"'
exits "eval of masks: top1 of them" 2 eval "$models/segmenter.onnx" --data segmentation:seg --metrics top1 "${plain[@]}"
exits "eval of masks that are not there" 1 eval "$models/segmenter.onnx" --data segmentation:plain "${plain[@]}"
exits "miou of data without masks" 2 eval "$models/segmenter.onnx" --data coco:plain/boxes.json --metrics miou "${plain[@]}"
exits "nothing trains on masks" 2 train --arch lenet-5 --data segmentation:seg --epochs 1 -o trained.onnx --threads 1 --no-record
exits "prune is measured by masks" 0 prune "$models/segmenter.onnx" --macs 0.3 --round-to 1 --data segmentation:seg "${plain[@]}" -o slim.onnx
says "prune is measured by masks: mIoU before and after" 'r.before.metrics.miou === 1 && r.after.metrics.miou > 0.5'
fits "prune is measured by masks" prune

for data in coco:plain/boxes.json yolo:yolo; do
  exits "eval of boxes, $data" 0 eval "$models/detector.onnx" --data "$data" --decoder ultraface "${plain[@]}"
  says "eval of boxes, $data: found" 'Math.abs(r.models[0].metrics["box-map"] - 1) < 1e-9 && r.models[0].metrics["box-recall"] === 1'
  fits "eval of boxes, $data" eval
done
exits "eval of boxes without a decoder" 2 eval "$models/detector.onnx" --data yolo:yolo "${plain[@]}"
check "eval of boxes without a decoder: names the option" "$(head -c 300 stdout)" grep -q -- '--decoder' stdout
printf 'head = "boxes"\nrelative = true\nbackground = true\nleast-score = 0.99\n' >strict.toml
exits "a decoder of a file" 0 eval "$models/detector.onnx" --data yolo:yolo --decoder strict.toml "${plain[@]}"
says "a decoder of a file: nothing is so sure" 'r.models[0].metrics["box-map"] === 0'
exits "a decoder for other outputs" 1 eval "$models/detector.onnx" --data yolo:yolo --decoder yolov5 "${plain[@]}"
exits "letterbox" 0 eval "$models/detector.onnx" --data yolo:yolo --decoder ultraface --preprocess letterbox "${plain[@]}"

exits "agreement" 0 eval "$models/segmenter.onnx" slim.onnx --data folder:plain --metrics agreement "${plain[@]}"
says "agreement: of the second with the first" 'r.models.length === 2 && r.models[1].metrics.cosine > 0.5 && r.models[1].outputs.length === 1'
fits "agreement" eval
exits "agreement on random inputs" 0 eval "$models/segmenter.onnx" "$models/segmenter.onnx" --random 3 --metrics agreement "${plain[@]:4}"
says "agreement on random inputs: with itself" 'r.models[1].metrics.distance === 0 && r.models[1].metrics.argmax === 1'
exits "agreement of boxes" 0 eval "$models/detector.onnx" "$models/detector.onnx" --data folder:plain --metrics agreement --decoder ultraface "${plain[@]}"
says "agreement of boxes: all pairs" 'r.models[1].metrics.boxes === 1 && r.models[1].reference_boxes === 6'
exits "agreement of one model" 2 eval "$models/segmenter.onnx" --data folder:plain --metrics agreement "${plain[@]}"
exits "random inputs for labels" 2 eval "$models/segmenter.onnx" --random 3 --metrics miou "${plain[@]:4}"
exits "prune without labels" 0 prune "$models/segmenter.onnx" --macs 0.3 --round-to 1 --data folder:plain "${plain[@]}" -o unlabelled.onnx
says "prune without labels: agreement" 'r.after.metrics.distance >= 0 && r.after.metrics.cosine > 0.5 && r.after.metrics.argmax > 0.5'
exits "quantize without labels" 0 quantize "$models/segmenter.onnx" --data folder:plain "${plain[@]}" -o int8.onnx
says "quantize without labels: agreement" 'r.after.metrics.cosine > 0.9'

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
