// Runs ONNX models in ONNX Runtime.
//
//   node ort_run.mjs MODEL.onnx IN.npy… OUTDIR   one model: inputs in the model's order, each output to OUTDIR/NAME.npy
//   node ort_run.mjs --batch                     many models in one process: on stdin, a line of JSON for each,
//       {"model": "m.onnx", "inputs": ["in.npy"], "outdir": "out"}, answered by a line {"outputs": ["out/output.npy"]}
//       or {"error": "…"}
//
// onnxruntime-node is looked for beside this file, in ./data/node_modules, and in $PARE_NODE_MODULES.
import {existsSync, mkdirSync} from 'node:fs';
import {createRequire} from 'node:module';
import {dirname, join, resolve} from 'node:path';
import {createInterface} from 'node:readline';
import {fileURLToPath} from 'node:url';
import {readNpy, writeNpy} from './npy.mjs';

function loadRuntime() {
  const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
  const places = [process.env.PARE_NODE_MODULES, join(root, 'data/node_modules'), join(root, 'node_modules'), 'data/node_modules'];
  for (const place of places)
    if (place && existsSync(join(place, 'onnxruntime-node')))
      return createRequire(resolve(place, '_.js'))('onnxruntime-node');
  console.error('onnxruntime-node is not here; get it with: npm install --prefix data --ignore-scripts onnxruntime-node@1.30.0');
  process.exit(1);
}

const ort = loadRuntime();

async function run({model, inputs, outdir}) {
  const session = await ort.InferenceSession.create(model, {
    intraOpNumThreads: 2,
    logSeverityLevel: 3,
    graphOptimizationLevel: process.env.ORT_OPTIMIZATION ?? 'all',
  });
  try {
    const feeds = {};
    inputs.forEach((path, i) => {
      const {type, dims, data} = readNpy(path);
      feeds[session.inputNames[i]] = new ort.Tensor(type, data, dims);
    });
    const results = await session.run(feeds);
    mkdirSync(outdir, {recursive: true});
    return session.outputNames.map((name) => {
      const path = join(outdir, `${name.replace(/[^A-Za-z0-9_.-]/g, '_')}.npy`);
      const {type, dims, data} = results[name];
      writeNpy(path, {type, dims, data});
      return path;
    });
  } finally {
    await session.release();
  }
}

if (process.argv[2] === '--batch') {
  for await (const line of createInterface({input: process.stdin})) {
    if (!line.trim()) continue;
    let answer;
    try {
      answer = {outputs: await run(JSON.parse(line))};
    } catch (error) {
      answer = {error: String(error.message ?? error)};
    }
    process.stdout.write(JSON.stringify(answer) + '\n');
  }
} else if (process.argv.length < 4) {
  console.error('usage: node ort_run.mjs MODEL.onnx IN.npy… OUTDIR | node ort_run.mjs --batch');
  process.exit(2);
} else {
  const [model, ...rest] = process.argv.slice(2);
  const outdir = rest.pop();
  try {
    console.log((await run({model, inputs: rest, outdir})).join('\n'));
  } catch (error) {
    console.error(`${model}: ${error.message ?? error}`);
    process.exit(1);
  }
}
