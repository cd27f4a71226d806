// Every graph of a directory in ONNX Runtime, against the outputs beside it: see random_graphs.sh.
//   node random_graphs.mjs DIRECTORY
import {existsSync, readdirSync, rmSync} from 'node:fs';
import {join} from 'node:path';
import {readNpy, relativeError} from './npy.mjs';
import {finish, onnxRuntimeOutputs, scratch, tolerance} from './peer.mjs';

const directory = process.argv[2];
const seeds = readdirSync(directory).filter((file) => file.endsWith('.onnx')).map((file) => file.slice(0, -5));
let passed = 0, failures = 0, worst = 0;
for (const seed of seeds) {
  const base = join(directory, seed), outdir = join(scratch, 'ort');
  try {
    const outputs = await onnxRuntimeOutputs(`${base}.onnx`, `${base}.in.npy`, outdir);
    if (existsSync(`${base}.out${outputs.length}.npy`)) throw new Error('ONNX Runtime gives fewer outputs');
    outputs.forEach((theirs, i) => {
      const error = relativeError(readNpy(`${base}.out${i}.npy`), theirs);
      if (!(error <= tolerance)) throw new Error(`output ${i}: relative error ${error}`);
      worst = Math.max(worst, error);
    });
    ++passed;
  } catch (error) {
    ++failures;
    console.log(`seed ${seed}: ${error.message}`);
  }
  rmSync(outdir, {recursive: true, force: true});
}
console.log(`ONNX Runtime: largest relative error ${worst.toExponential(1)}`);
finish(passed, failures);
